import { JOBS, OPEN_STATES, SLOT_WAITS_GROUP, slotWaitsIn, slotWaitsOf } from "../../core/model/job.ts";
import { jobsOf } from "../../core/model/lists/job-lists.ts";
import { OPEN_JOBS_GROUP, openJobsOf } from "../../core/model/quota.ts";
import { openRunLists, RUNS, RUNS_GROUP, runsOpenOf } from "../../core/model/run.ts";
import { ALL_WORKFLOWS, WORKFLOW_HEADS } from "../../core/model/workflow.ts";
import type { Needs } from "../engine.ts";

/**
 * Recounts run slots from the runs that hold them and the steps that wait for them.
 *
 * 1. Slots are derived from records in the same commit, so a difference means a bug or a manual write. It is corrected
 *    and logged.
 * 2. A recount is one atomic store operation, exact while runs start and end.
 * 3. Once a minute per process, for a bounded number of orgs in turn.
 * 4. An org without slots has no counter; it is found by its workflows, so that a lost counter is found too.
 */
export class SlotRecounts {
  /** Orgs in order of their last recount. */
  readonly #seen = new Set<string>();
  #cursor: string | undefined;

  async pass(engine: Needs<"world">): Promise<void> {
    await this.#look(engine);
    await recountSlots(engine, this.#seen);
    await recountOpenJobs(engine);
  }

  /** Continues through the workflows, and starts again after the last. */
  async #look(engine: Needs<"world">): Promise<void> {
    const query = { index: ALL_WORKFLOWS, limit: HEADS_MAX, cursor: this.#cursor };
    const { items, cursor } = await engine.world.store.list(WORKFLOW_HEADS, query);
    for (const { value } of items) this.#seen.add(value.org);
    this.#cursor = cursor ?? undefined;
  }
}

/** Recounts the orgs that hold slots and some that did. `seen` persists between calls. */
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

/** Jobs that an earlier version stored were not counted; their end makes the counter of their tenant negative. */
async function recountOpenJobs({ world: { store, log } }: Needs<"world">): Promise<void> {
  for (const [org, count] of await store.counts(OPEN_JOBS_GROUP, ORGS_MAX)) {
    if (count >= 0) continue;
    const lists = OPEN_STATES.map((state) => jobsOf(org, state));
    const by = -(await store.recount(openJobsOf(org), JOBS.name, lists));
    log.write("info", "open_jobs_recounted", { org, by });
  }
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

const ORGS_MAX = 100;
const HEADS_MAX = 200;
const SEEN_MAX = 10_000;
