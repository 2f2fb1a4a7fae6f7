/** Sends an event to a run: a step that waits for it takes it, or the run keeps it until one does. */
import { type Signal, useSignal } from "@preact/signals";
import type { RunDetail } from "../../../../src/client/schema.ts";
import { may } from "../../data/session.ts";
import { Action } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { JsonField, readJson } from "../../kit/json.tsx";

interface SendEventProps {
  readonly run: RunDetail;
  readonly reload: () => void;
}

/** Whether the workflow has a step that takes events and has not ended. */
export const takesEvents = ({ steps }: RunDetail): boolean =>
  Object.values(steps).some(({ type, ended_at }) => type === "wait" && ended_at === null);

export function SendEvent({ run, reload }: SendEventProps) {
  const isAsked = useSignal(false);
  if (!may("submit")) return null;
  return (
    <>
      <button
        type="button"
        class="button"
        onClick={() => {
          isAsked.value = true;
        }}
      >
        Send event …
      </button>
      {isAsked.value && (
        <EventDialog
          run={run}
          reload={reload}
          onClose={() => {
            isAsked.value = false;
          }}
        />
      )}
    </>
  );
}

function EventDialog({
  run: { run_id: id, steps },
  reload,
  onClose,
}: SendEventProps & { readonly onClose: () => void }) {
  const awaited = Object.values(steps).flatMap(({ awaits }) => (awaits === undefined ? [] : [awaits]));
  const name = useSignal(awaited[0]?.event ?? "");
  const key = useSignal(awaited[0]?.correlation_key ?? "");
  const data = useSignal("{}");
  // One id for the dialog: a repeated click changes nothing.
  const eventId = useSignal(crypto.randomUUID());
  const read = readJson(data.value);
  const isMissing = name.value.trim() === "";
  const body = {
    name: name.value.trim(),
    data: read.kind === "ok" ? read.value : null,
    ...(key.value === "" ? {} : { correlation_key: key.value }),
    event_id: eventId.value,
  };
  const keyArgs = key.value === "" ? [] : ["--correlation-key", key.value];
  const footer = (
    <>
      <button type="button" class="button" onClick={onClose}>
        Back
      </button>
      <Action
        label="Send"
        tone="main"
        needs="submit"
        isDisabled={isMissing || read.kind === "bad"}
        send="POST /workflow-runs/{id}/events"
        args={{ path: { id }, body }}
        cli={["run event", id, body.name, JSON.stringify(body.data), ...keyArgs]}
        done={({ outcome, step_id: step }) =>
          outcome === "kept" ? "no step waits for it yet: the run keeps the event" : `step ${step} took the event`
        }
        onDone={() => {
          reload();
          onClose();
        }}
      />
    </>
  );
  return (
    <Dialog title="Send an event" onClose={onClose} footer={footer}>
      <p>
        {awaited.length === 0
          ? "No step waits for an event now: the run keeps it until one does."
          : `Waited for: ${awaited.map(({ event }) => event).join(", ")}.`}
      </p>
      <TextField label="Name" value={name} />
      <TextField label="Correlation key" value={key} hint="for steps with correlate; others take any" />
      <JsonField label="Data, as JSON" value={data} rows={5} />
    </Dialog>
  );
}

interface TextFieldProps {
  readonly label: string;
  readonly value: Signal<string>;
  readonly hint?: string;
}

function TextField({ label, value, hint }: TextFieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="text"
        autoComplete="off"
        spellcheck={false}
        value={value.value}
        onInput={(event) => {
          value.value = event.currentTarget.value;
        }}
      />
      {hint !== undefined && <span class="hint">{hint}</span>}
    </label>
  );
}
