/**
 * Starts a rollout in two steps: the preview shows what would be compared, the prediction and the smallest effect that the
 * traffic can show; only then can it be started.
 */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { RolloutPreview, StartRolloutRequest } from "../../../../src/client/schema.ts";
import { navigate, segment, setParams } from "../../data/location.ts";
import { api } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { notify, notifyError } from "../../kit/toast.tsx";
import { PreviewView } from "./preview.tsx";
import {
  EMPTY_FORM,
  type FieldErrors,
  fieldError,
  readForm,
  type StartField,
  type StartForm,
  SUBJECTS,
  startArguments,
} from "./start-form.ts";

interface Previewed {
  readonly request: StartRolloutRequest;
  readonly preview: RolloutPreview;
}

export function StartDialog() {
  const form = useSignal<StartForm>(EMPTY_FORM);
  const errors = useSignal<FieldErrors>({});
  const previewed = useSignal<Previewed | null>(null);
  const isBusy = useSignal(false);
  const close = () => setParams({ start: null });
  const attempt = async (work: () => Promise<void>) => {
    isBusy.value = true;
    await work().catch((thrown) => {
      const error = notifyError(thrown);
      errors.value = fieldError(error.problem, error.detail);
    });
    isBusy.value = false;
  };
  const preview = () => {
    const read = readForm(form.value);
    errors.value = read.kind === "bad" ? read.errors : {};
    if (read.kind === "bad") return;
    const { request } = read;
    void attempt(async () => {
      previewed.value = { request, preview: await api.peek().request("POST /rollouts/preview", { body: request }) };
    });
  };
  const start = ({ request }: Previewed) =>
    attempt(async () => {
      const { id } = await api.peek().request("POST /rollouts", { body: request });
      notify("rollout started", id);
      navigate(`/rollouts/${segment(id)}`);
    });
  const change = (field: StartField, text: string) => {
    form.value = { ...form.value, [field]: text };
    const { [field]: _, ...rest } = errors.value;
    errors.value = rest;
    previewed.value = null;
  };
  return (
    <Dialog
      kind="wide"
      title="Start a rollout"
      onClose={close}
      footer={<Buttons {...{ previewed: previewed.value, isBusy: isBusy.value, close, preview, start }} />}
    >
      <form
        class="start-form"
        onSubmit={(event) => {
          event.preventDefault();
          preview();
        }}
      >
        <Fields form={form.value} errors={errors.value} change={change} />
        <button type="submit" class="sr-only" tabIndex={-1}>
          Preview
        </button>
      </form>
      {previewed.value !== null && <PreviewView preview={previewed.value.preview} />}
    </Dialog>
  );
}

interface ButtonsProps {
  readonly previewed: Previewed | null;
  readonly isBusy: boolean;
  readonly close: () => void;
  readonly preview: () => void;
  readonly start: (previewed: Previewed) => void;
}

function Buttons({ previewed, isBusy, close, preview, start }: ButtonsProps) {
  return (
    <>
      <button type="button" class="button" onClick={close}>
        Back
      </button>
      {previewed === null ? (
        <button type="button" class="button main" disabled={isBusy} onClick={preview}>
          {isBusy ? "Preview …" : "Preview"}
        </button>
      ) : (
        <span class="action">
          <button
            type="button"
            class="button main"
            disabled={isBusy || previewed.preview.active !== null}
            onClick={() => start(previewed)}
          >
            {isBusy ? "Start …" : "Start"}
          </button>
          <RequestMenu
            label="Start"
            request={{ name: "POST /rollouts", body: previewed.request }}
            cli={startArguments(previewed.request)}
          />
        </span>
      )}
    </>
  );
}

interface FieldsProps {
  readonly form: StartForm;
  readonly errors: FieldErrors;
  readonly change: (field: StartField, text: string) => void;
}

const TEXTS: readonly { readonly name: StartField; readonly label: string; readonly hint: string }[] = [
  { name: "policy", label: "Treatment value", hint: "such as bounded:500ms:0.3" },
  { name: "share", label: "Treatment share", hint: "10%, or a ramp: 10%, 30%, 50%" },
  { name: "orgs", label: "Tenants", hint: "all" },
  { name: "for_ms", label: "Ends after", hint: "7d" },
  { name: "horizon_ms", label: "Horizon of a unit", hint: "10m" },
  { name: "switch_ms", label: "Arms alternate every", hint: "by unit" },
];

function Fields({ form, errors, change }: FieldsProps) {
  return (
    <>
      <Field label="What changes" error={errors.class}>
        {(props) => (
          <select {...props} value={form.class} onChange={(event) => change("class", event.currentTarget.value)}>
            {SUBJECTS.map((subject) => (
              <option key={subject}>{subject}</option>
            ))}
          </select>
        )}
      </Field>
      {TEXTS.map(({ name, label, hint }) => (
        <Field key={name} label={label} error={errors[name]}>
          {(props) => (
            <input
              {...props}
              class="mono"
              value={form[name]}
              placeholder={hint}
              autoComplete="off"
              spellcheck={false}
              onInput={(event) => change(name, event.currentTarget.value)}
            />
          )}
        </Field>
      ))}
      <Field label="Gates, one per line" error={errors.gates}>
        {(props) => (
          <textarea
            {...props}
            class="mono"
            rows={3}
            value={form.gates}
            placeholder={GATES_HINT}
            spellcheck={false}
            onInput={(event) => change("gates", event.currentTarget.value)}
          />
        )}
      </Field>
      <Field label="Reason, for the audit log" error={errors.reason}>
        {(props) => (
          <textarea
            {...props}
            rows={3}
            maxLength={500}
            value={form.reason}
            onInput={(event) => change("reason", event.currentTarget.value)}
          />
        )}
      </Field>
    </>
  );
}

interface FieldProps {
  readonly label: string;
  readonly error: string | undefined;
  readonly children: (props: {
    readonly id: string;
    readonly "aria-invalid": boolean;
    readonly "aria-describedby": string;
  }) => ComponentChildren;
}

/** A field with its error below it. */
function Field({ label, error, children }: FieldProps) {
  const id = useId();
  const about = `${id}-error`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-invalid": error !== undefined, "aria-describedby": about })}
      <span id={about} class="tone-bad" role="alert">
        {error ?? ""}
      </span>
    </div>
  );
}

const GATES_HINT = "the default gates, or for example\nrun_lock_wait_p95<=1.2x\njob_result_latency_p95<=1.1x";
