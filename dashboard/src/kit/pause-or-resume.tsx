import { Action } from "./action.tsx";

interface PauseOrResumeProps {
  readonly of: "schedule" | "run";
  readonly id: string;
  readonly isPaused: boolean;
  /** What a pause does. */
  readonly pauseText: string;
  /** What the end of the pause does; without it the button does not ask. */
  readonly resumeText?: string;
  readonly reload: () => void;
}

/** Pauses a schedule or a run, or resumes it. */
export function PauseOrResume({ of, id, isPaused, pauseText, resumeText, reload }: PauseOrResumeProps) {
  const path = of === "run" ? "workflow-runs" : "schedules";
  const verb = isPaused ? "resume" : "pause";
  const label = isPaused ? "Resume" : "Pause";
  const text = isPaused ? resumeText : pauseText;
  const title = `${label} this ${of}?`;
  return (
    <Action
      key={verb}
      label={label}
      tone={isPaused && text === undefined ? "main" : "plain"}
      needs="operate"
      send={`POST /${path}/{id}/${verb}`}
      args={{ path: { id }, body: {} }}
      cli={[`${of} ${verb}`, id]}
      {...(text === undefined ? {} : { confirm: { title, text, reason: REASON } })}
      done={`${of} ${verb}d`}
      onDone={reload}
    />
  );
}

/** Asked for with an action; recorded in the audit log. */
export const REASON = { field: "reason", label: "Reason" };
