import { JOBS, SLOT_WAITS_GROUP, slotWaitsIn, slotWaitsOf } from "../../core/model/job.ts";
import { openRunLists, RUNS, RUNS_GROUP, runsOpenOf } from "../../core/model/run.ts";
import { ALL_WORKFLOWS, WORKFLOW_HEADS } from "../../core/model/workflow.ts";
import type { Needs } from "../engine.ts";

/**
 * Slots of workflow runs, counted anew from the runs that hold them and from the steps that wait for one.
 *
 * 1. A slot follows from its run's record, in the same commit: so there is nothing to repair, unless somebody wrote into
 *    the store by hand, or a bug did. Then an org would be refused for ever, or let in without end: it is set right, and
 *    said aloud.
 * 2. A recount is one atomic step of the store: it is exact while runs start and end.
 * 3. Once a minute in each process, and bounded: of more orgs than that, each gets its turn.
 * 4. An org without a slot is in no group of counters: this process remembers it, or finds it by its workflows. So a counter
 *    that was lost while nobody was there is found as well.
 */
export class SlotRecounts {
  /** Those looked at longest ago come first. */
  readonly #seen = new Set<string>();
  #cursor: string | undefined;
  #lastMs: number | null = null;

  /** Does nothing when it is not time yet. */
  async sweep(engine: Needs<"world">): Promise<void> {
    const nowMs = engine.world.clock.now();
    // A clock that was set back must not stop it for long.
    if (this.#lastMs !== null && Math.abs(nowMs - this.#lastMs) < EVERY_MS) return;
    await this.#look(engine);
    await recountSlots(engine, this.#seen);
    this.#lastMs = nowMs;
  }

  /** Some further workflows each time, and from the beginning after the last. */
  async #look(engine: Needs<"world">): Promise<void> {
    const query = { index: ALL_WORKFLOWS, limit: HEADS_MAX, cursor: this.#cursor };
    const { items, cursor } = await engine.world.store.list(WORKFLOW_HEADS, query);
    for (const { value } of items) this.#seen.add(value.org);
    this.#cursor = cursor ?? undefined;
  }
}

/** Looks at the orgs that hold slots, and at some that did: `seen` remembers them from one call to the next. */
export async function recountSlots(engine: Needs<"world">, seen: Set<string> = new Set()): Promise<void> {
  const { store } = engine.world;
  const groups = await Promise.all([store.counts(RUNS_GROUP, ORGS_MAX), store.counts(SLOT_WAITS_GROUP, ORGS_MAX)]);
  const counts = new Set(groups.flatMap((group) => [...group.keys()]));
  const others = [...seen].filter((org) => !counts.has(org)).slice(0, ORGS_MAX);
  const orgs = [...counts, ...others];
  for (const org of orgs) {
    seen.delete(org);
    seen.add(org);
  }
  for (const org of seen) {
    if (seen.size <= SEEN_MAX) break;
    seen.delete(org);
  }
  await Promise.all(orgs.map((org) => recountOrg(engine, org)));
}

async function recountOrg(engine: Needs<"world">, org: string): Promise<void> {
  const { store, log, metrics } = engine.world;
  const [held, waits] = await Promise.all([
    store.recount(runsOpenOf(org), RUNS.name, openRunLists(org)),
    store.recount(slotWaitsOf(org), JOBS.name, [slotWaitsIn(org)]),
  ]);
  if (held !== 0) log.write("warn", "slots_recounted", { org, by: -held });
  if (waits !== 0) log.write("warn", "slot_waits_recounted", { org, by: -waits });
  const off = Math.abs(held) + Math.abs(waits);
  if (off !== 0) metrics.add("cordum_slots_recounted_total", {}, off);
}

const EVERY_MS = 60_000;
const ORGS_MAX = 100;
const HEADS_MAX = 200;
const SEEN_MAX = 10_000;
