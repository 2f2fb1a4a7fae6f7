import { isRunFinal, RUNS, type Run, type RunState } from "../../core/model/run.ts";
import type { RunEvent } from "../../core/workflow/run/advance.ts";
import type { Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import type { Needs } from "../engine.ts";

/**
 * What people do to a run: cancel it, pause it, let it go on. Each is news to the run, under its lock, with its line in the
 * audit log in the same commit.
 */
export interface RunControl {
  readonly org: string;
  readonly runId: string;
  readonly by: string;
  readonly why: string;
}

export type ControlOutcome =
  | { readonly kind: "moved"; readonly state: RunState }
  /** It has ended before: as this. */
  | { readonly kind: "ended"; readonly state: RunState }
  /** It is what it should become, or cannot: a run that is ending is not paused. */
  | { readonly kind: "already"; readonly state: RunState }
  | { readonly kind: "not_found" };

/** Reaches running workers, children and sub-workflows. */
export const cancelRun = (
  engine: Needs<"world" | "audit" | "runInbox">,
  request: RunControl,
): Promise<ControlOutcome> => control(engine, request, "cancel", ["RUNNING", "PAUSED"]);

/** Nothing new begins until it is resumed; what is out goes on, and its end is taken in. */
export const pauseRun = (engine: Needs<"world" | "audit" | "runInbox">, request: RunControl): Promise<ControlOutcome> =>
  control(engine, request, "pause", ["RUNNING"]);

export const resumeRun = (
  engine: Needs<"world" | "audit" | "runInbox">,
  request: RunControl,
): Promise<ControlOutcome> => control(engine, request, "resume", ["PAUSED"]);

async function control(
  engine: Needs<"world" | "audit" | "runInbox">,
  { org, runId, by, why }: RunControl,
  kind: "cancel" | "pause" | "resume",
  from: readonly RunState[],
): Promise<ControlOutcome> {
  const found = await ownRun(engine, org, runId);
  if (!found) return { kind: "not_found" };
  const { state, workflowId } = found.value;
  if (isRunFinal(state)) return { kind: "ended", state };
  if (!from.includes(state)) return { kind: "already", state };
  const event: RunEvent = { kind, by, why };
  const facts = { run: runId, workflow: workflowId, state, why };
  const line = auditPut(engine, { org, kind: "run", who: by, what: kind, facts });
  const answered = await engine.runInbox.enqueue(
    { org, runId, path: "gateway" },
    { kind: "event", event, besides: [line] },
  );
  const now = answered.kind === "done" ? answered.run : null;
  if (!now) return { kind: "not_found" };
  if (kind === "pause" && now.state === "ENDING") return { kind: "already", state: now.state };
  // Others may have come in between: what ended without this wish was not moved by it.
  const isMine = !isRunFinal(now.state) || (kind !== "pause" && (kind === "cancel") === (now.state === "CANCELLED"));
  return isMine ? { kind: "moved", state: now.state } : { kind: "ended", state: now.state };
}

/** Somebody else's run is not there. */
export async function ownRun(engine: Needs<"world">, org: string, runId: string): Promise<Versioned<Run> | null> {
  const found = await engine.world.store.load(RUNS, runId);
  return found?.value.org === org ? found : null;
}
