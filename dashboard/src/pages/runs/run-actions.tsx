import type { RunDetail } from "../../../../src/client/schema.ts";
import { Action } from "../../kit/action.tsx";

const REASON = { field: "reason", label: "Reason" };

export function RunActions({ run, reload }: { readonly run: RunDetail; readonly reload: () => void }) {
  const { run_id: id, state } = run;
  const args = { path: { id }, body: {} };
  return (
    <>
      {state === "RUNNING" && (
        <Action
          label="Pause"
          needs="operate"
          send="POST /workflow-runs/{id}/pause"
          args={args}
          cli={["run pause", id]}
          confirm={{ title: "Pause this run?", text: "No new steps start. Running jobs continue.", reason: REASON }}
          done="run paused"
          onDone={reload}
        />
      )}
      {state === "PAUSED" && (
        <Action
          label="Resume"
          tone="main"
          needs="operate"
          send="POST /workflow-runs/{id}/resume"
          args={args}
          cli={["run resume", id]}
          done="run resumed"
          onDone={reload}
        />
      )}
      {(state === "RUNNING" || state === "PAUSED") && (
        <Action
          label="Cancel"
          tone="danger"
          needs="operate"
          send="POST /workflow-runs/{id}/cancel"
          args={args}
          cli={["run cancel", id]}
          confirm={{
            title: "Cancel this run?",
            text: "Its open jobs and sub-runs are cancelled; finished steps keep their results.",
            reason: REASON,
          }}
          done="run is being cancelled"
          onDone={reload}
        />
      )}
    </>
  );
}
