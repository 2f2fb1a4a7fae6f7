import { JOBS, type Job, RUNNING_GROUP } from "../../core/model/job.ts";
import { EVERY_SCOPE, isKillId, KILLS, type Kill, killId, POOLS_LIST } from "../../core/model/kill-switch.ts";
import { jobsOf } from "../../core/model/lists/job-lists.ts";
import { put } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { broadcastChange } from "../change-broadcast.ts";
import { retryOnConflict } from "../commit.ts";
import { cancelOwnJob } from "../dispatch/index.ts";
import type { DispatchContext, Needs } from "../engine.ts";
import { POOLS_CHANGED, refreshPools } from "../workers/index.ts";

/**
 * The kill switch stops the work of a tenant, or of all tenants.
 *
 * 1. After the response this process dispatches and leases nothing of the scope; other processes follow on the change
 *    broadcast, at the latest after half a minute. Jobs are still admitted and checked; they wait in the backlog.
 * 2. Jobs with workers are cancelled, and later results are ignored. Every sweep repeats this while the switch is
 *    engaged, for jobs that another process sent meanwhile.
 * 3. Engaging and releasing are audited. A kill switch does not expire.
 */
export interface KillRequest {
  /** A tenant, or `*` for all. */
  readonly scope: string;
  readonly reason: string;
  readonly by: string;
}

export interface Engaged {
  /** `already`: engaged before; its reason is kept. */
  readonly kind: "engaged" | "already";
  readonly kill: Kill;
  /** Cancelled jobs that were with workers. */
  readonly cancelled: number;
}

export async function engageKill(
  engine: DispatchContext & Needs<"audit">,
  { scope, reason, by }: KillRequest,
): Promise<Engaged> {
  const { clock, log, store } = engine.world;
  const { kind, kill } = await retryOnConflict(`kill switch \`${scope}\``, async () => {
    const found = await store.load(KILLS, killId(scope));
    if (found) return { kind: "already", kill: found.value } as const;
    const kill: Kill = { scope, reason, by, engagedMs: clock.now() };
    const line = auditPut(engine, { org: scope, kind: "kill", who: by, what: "engaged", facts: { scope, reason } });
    const puts = [put(KILLS, killId(scope), null, kill), line];
    return (await engine.commit({ org: scope, puts })).kind === "committed"
      ? ({ kind: "engaged", kill } as const)
      : "stale";
  });
  if (kind === "engaged") log.write("warn", "kill_engaged", { scope, reason, by });
  await changed(engine);
  return { kind, kill, cancelled: await stopWork(engine, kill) };
}

/** Cancels jobs of engaged scopes that are with workers. Cheap without an engaged switch. */
export async function stopKilled(engine: DispatchContext & Needs<"audit">): Promise<void> {
  const { store } = engine.world;
  for (const { scope } of engine.pools.kills.values()) {
    const running = await store.counts(RUNNING_GROUP, ORGS_MAX);
    if (scope === EVERY_SCOPE ? running.size === 0 : (running.get(scope) ?? 0) === 0) continue;
    // The switch may have been released meanwhile.
    const found = await store.load(KILLS, killId(scope));
    if (found) await stopWork(engine, found.value);
  }
}

/** Null if none was engaged. */
export async function releaseKill(
  engine: DispatchContext & Needs<"audit">,
  scope: string,
  by: string,
): Promise<Kill | null> {
  const { log, store } = engine.world;
  const kill = await retryOnConflict(`kill switch \`${scope}\``, async () => {
    const found = await store.load(KILLS, killId(scope));
    if (!found) return null;
    const facts = { scope, engaged_by: found.value.by, reason: found.value.reason };
    const line = auditPut(engine, { org: scope, kind: "kill", who: by, what: "released", facts });
    const committed = await engine.commit({ org: scope, puts: [put(KILLS, killId(scope), found, null), line] });
    return committed.kind === "committed" ? found.value : "stale";
  });
  if (kill) log.write("warn", "kill_released", { scope, by });
  await changed(engine);
  return kill;
}

/** Engaged switches, newest first. */
export async function listKills({ world }: Needs<"world">): Promise<readonly Kill[]> {
  const page = await world.store.list(KILLS, { index: POOLS_LIST, limit: LISTED_MAX });
  return page.items.filter(({ id }) => isKillId(id)).map(({ value }) => value);
}

async function changed(engine: DispatchContext): Promise<void> {
  await refreshPools(engine);
  broadcastChange(engine, POOLS_CHANGED);
}

/** Cancels jobs with workers; returns their number. A job that cannot be cancelled now is found again. */
async function stopWork(engine: DispatchContext & Needs<"audit">, kill: Kill): Promise<number> {
  const { store } = engine.world;
  const orgs = kill.scope === EVERY_SCOPE ? [...(await store.counts(RUNNING_GROUP, ORGS_MAX)).keys()] : [kill.scope];
  let cancelled = 0;
  for (const org of orgs) {
    for (const state of ["DISPATCHED", "RUNNING"] as const) cancelled += await stopIn(engine, jobsOf(org, state), kill);
  }
  return cancelled;
}

async function stopIn(engine: DispatchContext & Needs<"audit">, index: string, kill: Kill): Promise<number> {
  let cancelled = 0;
  let cursor: string | undefined;
  do {
    const page = await engine.world.store.list(JOBS, { index, limit: PAGE, cursor });
    const stopped = await Promise.all(page.items.map(({ value }) => stopJob(engine, value, kill)));
    cancelled += stopped.filter(Boolean).length;
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined && !engine.tasks.isClosed);
  return cancelled;
}

async function stopJob(
  engine: DispatchContext & Needs<"audit">,
  { id, org, step }: Job,
  { by, reason }: Kill,
): Promise<boolean> {
  // A step that waits for a sub-run is not with a worker; the jobs of the sub-run are found on their own.
  if (step && step.kind !== "worker") return false;
  try {
    return (await cancelOwnJob(engine, { org, jobId: id, by, why: `killed: ${reason}` })).kind === "cancelled";
  } catch (error) {
    engine.world.log.write("warn", "kill_cancel_deferred", { job: id, error: String(error) });
    return false;
  }
}

const LISTED_MAX = 1_000;
const ORGS_MAX = 10_000;
const PAGE = 100;
