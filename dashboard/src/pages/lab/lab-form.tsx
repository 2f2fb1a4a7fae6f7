/** The parameters of an experiment, with the limits and the error of each. */
import { useSignal } from "@preact/signals";
import type { TargetedEvent } from "preact";
import { useId } from "preact/hooks";
import type { Request } from "../../data/equivalent.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Section } from "../../kit/layout.tsx";
import { Prose } from "../../kit/prose.tsx";
import { commandOf, type Draft, type Experiment, type Param, requestOf } from "./params.ts";

interface LabFormProps {
  readonly one: Experiment;
  readonly draft: Draft;
  readonly rejected: { readonly param: string; readonly detail: string } | null;
  readonly isRunning?: boolean;
  readonly onRun: (draft: Draft) => void;
}

export function LabForm({ one, draft, rejected, isRunning = false, onRun }: LabFormProps) {
  const edited = useSignal(draft);
  const body = { params: requestOf(one.params, edited.value) };
  const request: Request = one.needs_record
    ? { name: "POST /lab/replay", body }
    : { name: "POST /lab/{experiment}", path: { experiment: one.name }, body };
  const submit = (event: Event) => {
    event.preventDefault();
    onRun(edited.value);
  };
  return (
    <Section title="Parameters" about="empty fields have their default">
      <form class="lab-form" onSubmit={submit} noValidate>
        {rowsFirst(one.params).map((param) => (
          <Field
            key={param.name}
            param={param}
            value={edited.value[param.name] ?? ""}
            error={rejected?.param === param.name ? rejected.detail : null}
            onEdit={(text) => {
              edited.value = { ...edited.value, [param.name]: text };
            }}
          />
        ))}
        <p class="buttons">
          <span class="action">
            <button type="submit" class="button main" disabled={isRunning}>
              {isRunning ? "Running …" : "Run"}
            </button>
            <RequestMenu label={`run ${one.name}`} request={request} cli={commandOf(one, edited.value)} />
          </span>
        </p>
      </form>
    </Section>
  );
}

const rowsFirst = (params: readonly Param[]): readonly Param[] =>
  params.toSorted((a, b) => Number(b.kind === "rows") - Number(a.kind === "rows"));

interface FieldProps {
  readonly param: Param;
  readonly value: string;
  readonly error: string | null;
  readonly onEdit: (text: string) => void;
}

function Field({ param, value, error, onEdit }: FieldProps) {
  const id = useId();
  const { name, kind, help, choices } = param;
  const shared = {
    ...{ id, value, "aria-describedby": `${id}-help`, "aria-invalid": error !== null },
    onInput: (event: TargetedEvent<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>) =>
      onEdit(event.currentTarget.value),
  };
  return (
    <div class={kind === "rows" ? "field lab-rows" : "field"}>
      <label for={id}>
        {labelOf(name)}
        {param.unit !== "" && <span class="soft"> ({param.unit})</span>}
      </label>
      {kind === "choice" && (
        <select {...shared}>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.value}
            </option>
          ))}
        </select>
      )}
      {kind === "rows" && <textarea {...shared} rows={Math.min(12, Math.max(4, value.split("\n").length))} />}
      {(kind === "number" || kind === "numbers") && <input {...shared} inputMode="decimal" autoComplete="off" />}
      <p id={`${id}-help`} class="soft">
        {error !== null && (
          <strong class="tone-bad" role="alert">
            <Prose text={withoutFlag(error)} />{" "}
          </strong>
        )}
        {help}
        {rangeOf(param)}
      </p>
      {kind === "rows" && (
        <details>
          <summary>Named rows</summary>
          <dl class="facts">
            {choices.map((choice) => (
              <div key={choice.value}>
                <dt class="mono">{choice.value}</dt>
                <dd>{choice.about}</dd>
              </div>
            ))}
          </dl>
          <p class="soft">
            Or a retry policy: <code>fixed:500ms</code>, <code>bounded:500ms:0.3</code>, <code>full:1s:30s</code>, one a
            line.
          </p>
        </details>
      )}
    </div>
  );
}

/** `holdMs` → `hold`; the unit is beside it. */
const labelOf = (name: string): string =>
  name === "policies" ? "rows" : name.replace(/Ms$/, "").replaceAll(/[A-Z]/g, (capital) => ` ${capital.toLowerCase()}`);

const rangeOf = ({ min, max }: Param): string =>
  min === null || max === null || max > 1e12
    ? ""
    : `; ${min.toLocaleString("en-US")} to ${max.toLocaleString("en-US")}`;

/** Errors name the flag of the command line; the field is beside the error. */
const withoutFlag = (detail: string): string => detail.replace(/^--[\w-]+ ?(?:`[^`]*`)?: /, "");
