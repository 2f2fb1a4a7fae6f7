import type { StoredPayload } from "../../core/model/payload.ts";
import { isRunFinal, RUN_RESERVATIONS, RUNS, type Run, TIMELINE, timelineOf } from "../../core/model/run.ts";
import { type Put, put, type Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { retryOnConflict } from "../commit.ts";
import type { Needs } from "../engine.ts";

/** Removes a run with its timeline and payloads. Its jobs are removed when they become due. */
export type RemoveOutcome =
  | { readonly kind: "removed" | "not_found" }
  | { readonly kind: "still_open"; readonly state: Run["state"] };

interface RemoveRequest {
  readonly org: string;
  readonly runId: string;
  readonly by: string;
}

export const removeRun = (
  engine: Needs<"world" | "commit" | "audit">,
  request: RemoveRequest,
): Promise<RemoveOutcome> => retryOnConflict(`run \`${request.runId}\``, () => removeOnce(engine, request));

async function removeOnce(
  engine: Needs<"world" | "commit" | "audit">,
  { org, runId, by }: RemoveRequest,
): Promise<RemoveOutcome | "stale"> {
  const found = await engine.world.store.load(RUNS, runId);
  if (!found || found.value.org !== org) return { kind: "not_found" };
  const { state, workflowId, parent, isParentTold } = found.value;
  // The parent has not been notified yet.
  if (!isRunFinal(state) || (parent && !isParentTold)) return { kind: "still_open", state };
  const facts = { run: runId, workflow: workflowId, state };
  const line = auditPut(engine, { org, kind: "run", who: by, what: "removed", facts });
  return (await removeRunRecords(engine, found, [line])) ? { kind: "removed" } : "stale";
}

/** One commit. False: the run changed and is kept. */
export async function removeRunRecords(
  engine: Needs<"world" | "commit">,
  found: Versioned<Run>,
  extraPuts: readonly Put[] = [],
): Promise<boolean> {
  const { org, id } = found.value;
  const pages = await pagesOf(engine, id);
  const puts = [put(RUNS, id, found, null), ...pages, ...(await keyOf(engine, found.value)), ...extraPuts];
  const committed = await engine.commit({ org, puts });
  if (committed.kind !== "committed") return false;
  await Promise.all(payloadsOf(found.value).map(({ ptr }) => engine.world.blobs.delete(ptr)));
  return true;
}

/** The number of pages is bounded by the steps of a run and the iterations of its loops. */
async function pagesOf(engine: Needs<"world">, runId: string): Promise<readonly Put[]> {
  const puts: Put[] = [];
  for (let cursor: string | undefined; ; ) {
    const query = { index: timelineOf(runId), limit: PAGE, ...(cursor === undefined ? {} : { cursor }) };
    const page = await engine.world.store.list(TIMELINE, query);
    puts.push(...page.items.map((found) => put(TIMELINE, found.id, found, null)));
    if (page.cursor === null) return puts;
    cursor = page.cursor;
  }
}

/** The idempotency key is removed with its run, so that a replay starts a new one. */
async function keyOf(engine: Needs<"world">, { id, reservation }: Run): Promise<readonly Put[]> {
  if (reservation === undefined) return [];
  const reserved = await engine.world.store.load(RUN_RESERVATIONS, reservation);
  return reserved?.value.runId === id ? [put(RUN_RESERVATIONS, reservation, reserved, null)] : [];
}

/** Stored payloads of a run. */
export function payloadsOf({ input, output, steps, events }: Run): readonly StoredPayload[] {
  const ofSteps = Object.values(steps).flatMap(({ output: of, fan, loop }) => [
    ...[of, fan?.items],
    ...Object.values(loop?.previous ?? {}).map((before) => before.output),
  ]);
  const payloads = [input, output, ...ofSteps, ...(events?.kept ?? []).map(({ data }) => data)];
  return payloads.flatMap((payload) => (payload?.kind === "pointer" ? [payload] : []));
}

const PAGE = 100;
