import { nonFiniteIn } from "../../core/model/canonical.ts";
import { isRunFinal, RUNS, type Run, type RunState } from "../../core/model/run.ts";
import type { RunEvent } from "../../core/workflow/run/advance.ts";
import { bytesOf } from "../../core/workflow/run/run-draft.ts";
import { EVENT_BYTES_MAX, type EventAnswer, isSeen, type ReceivedEvent } from "../../core/workflow/run/wait.ts";
import type { Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import type { Needs } from "../engine.ts";

/**
 * Cancel, pause and resume of a run, and events for it: each is a run event under the run lock, with its audit entry in the same commit.
 */
export interface RunControl {
  readonly org: string;
  readonly runId: string;
  readonly by: string;
  readonly why: string;
  /** `cancel`: completed steps are not undone. Also stops the compensation of a run that is ending. */
  readonly skipsCompensation?: boolean;
}

export type ControlOutcome =
  | { readonly kind: "moved"; readonly state: RunState }
  /** The run had ended before. */
  | { readonly kind: "ended"; readonly state: RunState }
  /** The run is in the requested state already, or cannot reach it: an ending run is not paused. */
  | { readonly kind: "already"; readonly state: RunState }
  | { readonly kind: "not_found" };

/** Also cancels running workers, children and sub-workflows. */
export const cancelRun = (
  engine: Needs<"world" | "audit" | "runInbox">,
  request: RunControl,
): Promise<ControlOutcome> =>
  control(
    engine,
    request,
    "cancel",
    request.skipsCompensation ? ["RUNNING", "PAUSED", "ENDING"] : ["RUNNING", "PAUSED"],
  );

/** No step starts until the run is resumed. Running steps continue and their results are applied. */
export const pauseRun = (engine: Needs<"world" | "audit" | "runInbox">, request: RunControl): Promise<ControlOutcome> =>
  control(engine, request, "pause", ["RUNNING"]);

export const resumeRun = (
  engine: Needs<"world" | "audit" | "runInbox">,
  request: RunControl,
): Promise<ControlOutcome> => control(engine, request, "resume", ["PAUSED"]);

async function control(
  engine: Needs<"world" | "audit" | "runInbox">,
  { org, runId, by, why, skipsCompensation = false }: RunControl,
  kind: "cancel" | "pause" | "resume",
  from: readonly RunState[],
): Promise<ControlOutcome> {
  const found = await loadTenantRun(engine, org, runId);
  if (!found) return { kind: "not_found" };
  const { state, workflowId } = found.value;
  if (isRunFinal(state)) return { kind: "ended", state };
  if (!from.includes(state)) return { kind: "already", state };
  const skips = kind === "cancel" && skipsCompensation;
  const event: RunEvent = skips ? { kind, by, why, skipsCompensation: true } : { kind, by, why };
  const facts = { run: runId, workflow: workflowId, state, why, ...(skips ? { compensation: "skipped" } : {}) };
  const line = auditPut(engine, { org, kind: "run", who: by, what: kind, facts });
  const answered = await engine.runInbox.enqueue(
    { org, runId, path: "gateway" },
    { kind: "event", event, puts: [line] },
  );
  const now = answered.kind === "stale" ? null : answered.run;
  if (!now) return { kind: "not_found" };
  if (answered.kind === "over") return { kind: "ended", state: now.state };
  // The run ends as decided before.
  if (state === "ENDING") return { kind: "moved", state: now.state };
  if (kind === "pause" && now.state === "ENDING") return { kind: "already", state: now.state };
  // Other events may be in the same batch: a run that ended without this request was not moved by it.
  const isMine = !isRunFinal(now.state) || (kind !== "pause" && (kind === "cancel") === (now.state === "CANCELLED"));
  return isMine ? { kind: "moved", state: now.state } : { kind: "ended", state: now.state };
}

/** Gives an event to a run, under the run lock and with its audit entry in the same commit. */
export interface EventRequest {
  readonly org: string;
  readonly runId: string;
  readonly event: ReceivedEvent;
}

export type EventOutcome =
  | Exclude<EventAnswer, { readonly kind: "ended" }>
  | { readonly kind: "ended"; readonly state: RunState }
  | { readonly kind: "too_large"; readonly bytes: number; readonly bytesMax: number }
  /** The path of a number that JSON cannot represent. */
  | { readonly kind: "bad_number"; readonly path: string }
  | { readonly kind: "not_found" };

export async function sendEvent(
  engine: Needs<"world" | "audit" | "runInbox">,
  { org, runId, event }: EventRequest,
): Promise<EventOutcome> {
  const bytes = bytesOf(JSON.stringify(event.data ?? null));
  if (bytes > EVENT_BYTES_MAX) return { kind: "too_large", bytes, bytesMax: EVENT_BYTES_MAX };
  const path = nonFiniteIn(event.data, "data");
  if (path !== null) return { kind: "bad_number", path };
  const found = await loadTenantRun(engine, org, runId);
  if (!found) return { kind: "not_found" };
  const { state, workflowId, events } = found.value;
  // A repeated request is answered without a second audit entry.
  if (isSeen(events?.ids ?? [], event.id)) return { kind: "duplicate" };
  if (isRunFinal(state) || state === "ENDING") return { kind: "ended", state };
  const facts = { run: runId, workflow: workflowId, event: event.name };
  const line = auditPut(engine, { org, kind: "run", who: event.by, what: "event", facts });
  const done = await engine.runInbox.enqueue(
    { org, runId, path: "gateway" },
    { kind: "event", event: { kind: "received", event }, puts: [line] },
  );
  if (done.kind === "stale" || done.run === null) return { kind: "not_found" };
  const { answer } = done.kind === "done" ? done : {};
  return answer === undefined || answer.kind === "ended" ? { kind: "ended", state: done.run.state } : answer;
}

/** Null also for a run of another tenant. */
export async function loadTenantRun(
  engine: Needs<"world">,
  org: string,
  runId: string,
): Promise<Versioned<Run> | null> {
  const found = await engine.world.store.load(RUNS, runId);
  return found?.value.org === org ? found : null;
}
