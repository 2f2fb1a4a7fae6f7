import { isRunFinal, RUN_RESERVATIONS, RUNS, type Run, TIMELINE, timelineOf } from "../model/run.ts";
import { type Put, put, type Versioned } from "../ports/store.ts";
import { apply, untilFresh } from "./apply.ts";
import { audited } from "./audit.ts";
import type { Flow } from "./flow.ts";

/** A run leaves with its timeline and what it keeps elsewhere; its jobs follow when their own time comes. */
export type RemoveOutcome =
  | { readonly kind: "removed" | "not_found" }
  | { readonly kind: "still_open"; readonly state: Run["state"] };

interface RemoveWish {
  readonly org: string;
  readonly runId: string;
  readonly by: string;
}

export const removeRun = (flow: Flow, wish: RemoveWish): Promise<RemoveOutcome> =>
  untilFresh(`run \`${wish.runId}\``, () => removeOnce(flow, wish));

async function removeOnce(flow: Flow, { org, runId, by }: RemoveWish): Promise<RemoveOutcome | "stale"> {
  const found = await flow.world.store.load(RUNS, runId);
  if (!found || found.value.org !== org) return { kind: "not_found" };
  const { state, workflowId, parent, isParentTold } = found.value;
  // Somebody waits for its end, and has not heard of it yet.
  if (!isRunFinal(state) || (parent && !isParentTold)) return { kind: "still_open", state };
  const facts = { run: runId, workflow: workflowId, state };
  const line = audited(flow, { org, kind: "run", who: by, what: "removed", facts });
  return (await removeRecords(flow, found, [line])) ? { kind: "removed" } : "stale";
}

/** The run goes last: while it is there, somebody comes again for the rest. False: it is another one by now, and stays. */
export async function removeRecords(flow: Flow, found: Versioned<Run>, besides: readonly Put[] = []): Promise<boolean> {
  const { store, blobs } = flow.world;
  const { org, id } = found.value;
  for (;;) {
    const { items } = await store.list(TIMELINE, { index: timelineOf(id), limit: PAGE });
    if (items.length === 0) break;
    await apply(flow, { org, puts: items.map((page) => put(TIMELINE, page.id, page, null)) });
  }
  const puts = [put(RUNS, id, found, null), ...(await keyOf(flow, found.value)), ...besides];
  const committed = await apply(flow, { org, puts });
  if (committed.kind !== "committed") return false;
  await Promise.all(keysOf(found.value).map((key) => blobs.delete(key)));
  return true;
}

/** A key that made a run which is gone makes another one: it must not answer for what nobody can look at. */
async function keyOf(flow: Flow, { id, reservation }: Run): Promise<readonly Put[]> {
  if (reservation === undefined) return [];
  const reserved = await flow.world.store.load(RUN_RESERVATIONS, reservation);
  return reserved?.value.runId === id ? [put(RUN_RESERVATIONS, reservation, reserved, null)] : [];
}

/** What a run keeps elsewhere. */
export function keysOf({ input, output, steps }: Run): readonly string[] {
  const payloads = [input, output, ...Object.values(steps).flatMap(({ output: of, fan }) => [of, fan?.items])];
  return payloads.flatMap((payload) => (payload?.kind === "pointer" ? [payload.ptr] : []));
}

const PAGE = 100;
