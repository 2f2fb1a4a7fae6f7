import type { RunDetail } from "../../../../src/client/schema.ts";
import { Action } from "../../kit/action.tsx";
import { PauseOrResume, REASON } from "../../kit/pause-or-resume.tsx";
import { SendEvent, takesEvents } from "./send-event.tsx";

export function RunActions({ run, reload }: { readonly run: RunDetail; readonly reload: () => void }) {
  const { run_id: id, state } = run;
  const args = { path: { id }, body: {} };
  const isOpen = state === "RUNNING" || state === "PAUSED";
  return (
    <>
      {isOpen && takesEvents(run) && <SendEvent run={run} reload={reload} />}
      {isOpen && (
        <PauseOrResume
          of="run"
          id={id}
          isPaused={state === "PAUSED"}
          pauseText="No new steps start. Running jobs continue."
          reload={reload}
        />
      )}
      {isOpen && (
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
