/** Creates a schedule, or changes one. The control plane checks the document; its problems are shown here. */
import { type Signal, useSignal } from "@preact/signals";
import type { ScheduleApplied, ScheduleDetail } from "../../../../src/client/schema.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { JsonField, readJson } from "../../kit/json.tsx";
import { Note } from "../../kit/note.tsx";
import { Prose } from "../../kit/prose.tsx";
import { requestOf, type ScheduleForm, useScheduleForm } from "./schedule-form.ts";

interface ApplyDialogProps {
  /** Null: a new schedule. */
  readonly before: ScheduleDetail | null;
  readonly onApplied: (schedule: ScheduleApplied) => void;
  readonly onClose: () => void;
}

export function ApplyDialog({ before, onApplied, onClose }: ApplyDialogProps) {
  const form = useScheduleForm(before);
  const refused = useSignal("");
  const input = readJson(form.input.value);
  const body = requestOf(form, input.kind === "ok" ? input.value : null);
  const footer = (
    <>
      <button type="button" class="button" onClick={onClose}>
        Back
      </button>
      <Action
        label={before === null ? "Create" : "Save"}
        tone="main"
        needs="operate"
        isDisabled={input.kind === "bad" || body.id === "" || body.workflow_id === ""}
        send="POST /schedules"
        args={{ body }}
        cli={["schedule apply", "-"]}
        stdin={JSON.stringify(body)}
        done={({ result }) => `schedule ${result}`}
        onFailed={({ detail }) => {
          refused.value = detail;
          return false;
        }}
        onDone={(applied) => {
          onApplied(applied);
          onClose();
        }}
      />
    </>
  );
  return (
    <Dialog
      kind="wide"
      title={before === null ? "Create a schedule" : `Edit ${before.id}`}
      onClose={onClose}
      footer={footer}
    >
      {refused.value !== "" && (
        <Note tone="bad">
          <Prose text={refused.value} />
        </Note>
      )}
      <Fields form={form} isNew={before === null} />
      <JsonField label="Input of each run, as JSON" value={form.input} rows={6} />
    </Dialog>
  );
}

function Fields({ form, isNew }: { readonly form: ScheduleForm; readonly isNew: boolean }) {
  return (
    <div class="form-columns">
      <Field label="Id" value={form.id} isReadOnly={!isNew} placeholder="nightly-report" />
      <WorkflowField value={form.workflow} />
      <Timing form={form} />
      <Choice label="While a run is open" value={form.overlap} options={OVERLAPS} />
      <Field
        label="Jitter, in seconds"
        value={form.jitterS}
        type="number"
        hint="each slot starts at a random time within this"
      />
      <Field
        label="Catch-up window, in minutes"
        value={form.catchUpMin}
        type="number"
        hint="a slot that cannot start for this long is missed"
      />
    </div>
  );
}

const OVERLAPS = [
  ["skip", "skip the slot"],
  ["queue", "wait for its end (one slot)"],
  ["allow", "start anyway"],
  ["cancel", "cancel the open run"],
] as const;

const KINDS = [
  ["cron", "cron expression"],
  ["every", "interval"],
] as const;

function Timing({ form: { kind, cron, every, timeZone } }: { readonly form: ScheduleForm }) {
  return (
    <>
      <Choice label="Starts by" value={kind} options={KINDS} />
      {kind.value === "cron" ? (
        <>
          <Field label="Expression" value={cron} hint="minute, hour, day of month, month, day of week; or @daily" />
          <Field label="Time zone" value={timeZone} suggestions={ZONES} />
        </>
      ) : (
        <Field label="Every" value={every} hint="such as 15m or 6h: its multiples since 1970 UTC" />
      )}
    </>
  );
}

const ZONES = ["UTC", ...(Intl.supportedValuesOf?.("timeZone") ?? [])];

function WorkflowField({ value }: { readonly value: Signal<string> }) {
  const workflows = useResource("workflows", (signal) =>
    api.value.request("GET /workflows", { query: { limit: 200 } }, { signal }),
  );
  const shown = workflows.shown.value;
  const names = shown.kind === "ready" ? shown.value.items.map(({ workflow_id }) => workflow_id) : [];
  return <Field label="Workflow" value={value} suggestions={names} />;
}

interface FieldProps {
  readonly label: string;
  readonly value: Signal<string>;
  readonly type?: "text" | "number";
  readonly placeholder?: string;
  readonly hint?: string;
  readonly isReadOnly?: boolean;
  readonly suggestions?: readonly string[];
}

function Field({ label, value, type = "text", placeholder, hint, isReadOnly = false, suggestions = [] }: FieldProps) {
  const list = suggestions.length === 0 ? undefined : `list-${label.replaceAll(/\W/g, "-")}`;
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type={type}
        min={type === "number" ? 0 : undefined}
        autoComplete="off"
        spellcheck={false}
        readOnly={isReadOnly}
        placeholder={placeholder}
        list={list}
        value={value.value}
        onInput={(event) => {
          value.value = event.currentTarget.value;
        }}
      />
      {hint !== undefined && <span class="hint">{hint}</span>}
      {list !== undefined && (
        <datalist id={list}>
          {suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </label>
  );
}

interface ChoiceProps<T extends string> {
  readonly label: string;
  readonly value: Signal<T>;
  readonly options: readonly (readonly [T, string])[];
}

function Choice<T extends string>({ label, value, options }: ChoiceProps<T>) {
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={value.value}
        onChange={(event) => {
          const [chosen] = options[event.currentTarget.selectedIndex] ?? [];
          if (chosen !== undefined) value.value = chosen;
        }}
      >
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
