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
            text: "Its open jobs and sub-runs are cancelled. Completed steps that have a compensation are undone; the others keep their results.",
            reason: REASON,
          }}
          done="run is being cancelled"
          onDone={reload}
        />
      )}
      {state === "ENDING" && run.compensation?.stopped === false && <StopUndoing id={id} onDone={reload} />}
    </>
  );
}

function StopUndoing({ id, onDone }: { readonly id: string; readonly onDone: () => void }) {
  return (
    <Action
      label="Stop undoing"
      tone="danger"
      needs="operate"
      send="POST /workflow-runs/{id}/cancel"
      args={{ path: { id }, body: { compensate: false } }}
      cli={["run cancel", id, "--no-compensate"]}
      confirm={{
        title: "Stop undoing this run?",
        text: "Compensations that have started end; the steps after them keep their effects. The run then ends as decided.",
        reason: REASON,
      }}
      done="no further step is undone"
      onDone={onDone}
    />
  );
}
