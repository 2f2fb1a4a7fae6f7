/** What an operator can do about a job in its state. */
import type { JobState } from "../../../src/client/schema.ts";
import { href } from "../data/location.ts";
import { Action } from "./action.tsx";

const OPEN: readonly JobState[] = ["PENDING", "APPROVAL_REQUIRED", "SCHEDULED", "DISPATCHED", "RUNNING", "RETRYING"];

interface JobActionsProps {
  readonly id: string;
  readonly state: JobState;
  readonly onDone: () => void;
}

export function JobActions({ id, state, onDone }: JobActionsProps) {
  return (
    <>
      {state === "APPROVAL_REQUIRED" && <Decisions id={id} onDone={onDone} />}
      {(state === "FAILED" || state === "TIMEOUT") && (
        <Action
          label="Retry"
          tone="main"
          needs="operate"
          send="POST /dlq/{id}/retry"
          args={{ path: { id } }}
          cli={["dlq retry", id]}
          confirm={{
            title: "Retry this job?",
            text: "It runs again with the same input and new retry budgets. The policy checks it again.",
          }}
          done="job is retried"
          onDone={onDone}
        />
      )}
      {OPEN.includes(state) && (
        <Action
          label="Cancel"
          tone="danger"
          needs="operate"
          send="POST /jobs/{id}/cancel"
          args={{ path: { id }, body: {} }}
          cli={["job cancel", id]}
          confirm={{
            title: "Cancel this job?",
            text: "A worker that has it is told to stop. The job ends as CANCELLED.",
            reason: { field: "reason", label: "Reason" },
          }}
          done="job cancelled"
          onDone={onDone}
        />
      )}
    </>
  );
}

function Decisions({ id, onDone }: { readonly id: string; readonly onDone: () => void }) {
  return (
    <>
      <a class="button main" href={href("/approvals", { job: id })}>
        Review
      </a>
      <Action
        label="Reject"
        needs="operate"
        send="POST /approvals/{id}/reject"
        args={{ path: { id }, body: { reason: "" } }}
        cli={["approval reject", id, "--reason", "..."]}
        confirm={{
          title: "Reject this job?",
          text: "It is not run and ends as DENIED.",
          reason: { field: "reason", label: "Reason", isRequired: true },
        }}
        done="job rejected"
        onDone={onDone}
      />
    </>
  );
}
