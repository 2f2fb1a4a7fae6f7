/** Corrects the input of a dead-lettered job: submits it as a new job, and removes the dead letter. */
import { useSignal } from "@preact/signals";
import type { JobDetail, SubmitRequest } from "../../../../src/client/schema.ts";
import { navigate, segment } from "../../data/location.ts";
import { useResource } from "../../data/resource.ts";
import { api } from "../../data/session.ts";
import { RequestMenu } from "../../kit/action.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { JsonField, readJson } from "../../kit/json.tsx";
import { Show } from "../../kit/state.tsx";
import { notify, notifyError } from "../../kit/toast.tsx";

interface EditDialogProps {
  readonly id: string;
  readonly jobId: string;
  readonly input: unknown;
  readonly onClose: () => void;
}

export function EditDialog({ id, jobId, input, onClose }: EditDialogProps) {
  const text = useSignal(JSON.stringify(input ?? null, null, 2));
  const isBusy = useSignal(false);
  const job = useResource(`job of ${id}`, (signal) => api.value.jobs.get(jobId, { signal }));
  const shown = job.shown.value;
  const read = readJson(text.value);
  const request = shown.kind === "ready" && read.kind === "ok" ? requestOf(shown.value, read.value) : null;
  const send = async () => {
    if (request === null) return;
    isBusy.value = true;
    try {
      const submitted = await api.peek().jobs.submit(request);
      await api.peek().deadLetters.drop(id);
      notify("submitted as a new job", submitted.job_id);
      navigate(`/jobs/${segment(submitted.job_id)}`);
    } catch (error) {
      notifyError(error);
    }
    isBusy.value = false;
  };
  return (
    <Dialog
      kind="wide"
      title="Edit and retry"
      onClose={onClose}
      footer={
        <>
          <button type="button" class="button" onClick={onClose}>
            Back
          </button>
          <Submit request={request} isBusy={isBusy.value} onClick={send} />
        </>
      }
    >
      <p>
        The policy checks the new job like any other, and this dead letter is removed. A run that the old job belongs to
        does not use the new one.
      </p>
      <Show of={job} what="the job">
        {() => <JsonField label="Input, as JSON" value={text} rows={14} />}
      </Show>
    </Dialog>
  );
}

interface SubmitProps {
  readonly request: SubmitRequest | null;
  readonly isBusy: boolean;
  readonly onClick: () => void;
}

function Submit({ request, isBusy, onClick }: SubmitProps) {
  const label = "Submit as a new job";
  return (
    <span class="action">
      <button type="button" class="button main" disabled={request === null || isBusy} onClick={onClick}>
        {label}
      </button>
      {request !== null && (
        <RequestMenu
          label={label}
          request={{ name: "POST /jobs", body: request }}
          cli={["job submit", request.topic, JSON.stringify(request.input)]}
        />
      )}
    </span>
  );
}

function requestOf(job: JobDetail, input: unknown): SubmitRequest {
  const { topic, labels, risk_tags, requires, adapter_id, env, memory_id, context_hints, budget } = job;
  const { compensation, workflow_id, parent_job_id, step_index, principal_id, trace_id } = job;
  return {
    ...{ topic, input, labels, risk_tags, requires, adapter_id, env, memory_id, context_hints, budget },
    ...{ compensation, workflow_id, parent_job_id, step_index, principal_id, trace_id },
    priority: job.priority as SubmitRequest["priority"],
    capability: job.capability ?? undefined,
    actor_id: job.actor_id ?? undefined,
    actor_type: (job.actor_type ?? undefined) as SubmitRequest["actor_type"],
    pack_id: job.pack_id ?? undefined,
  };
}
