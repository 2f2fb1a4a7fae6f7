import { ALONE, BATCH_MAX, PACED_BATCH_MAX, ROUNDS_MAX, WITH_OTHERS } from "../../core/contention/lock-turn.ts";
import type { Arms } from "../../core/model/arms.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { RetryUsage } from "../../core/retry/budget.ts";
import { intentOf, retryAfter } from "../../core/retry/intent.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { Versioned } from "../../ports/store.ts";
import type { Needs, RunContext } from "../engine.ts";
import { awaitTurn } from "../fairness-throttle.ts";
import type { AppliedEvent } from "../observe/index.ts";
import { type LockOptions, recordAcquired, recordBusyRetry, totalLockWait, withLock } from "../with-lock.ts";
import { advanceRun } from "./advance-run.ts";
import { armsIn, type PendingRunEvent, type QueuedRunEvent, type RunKey, type RunPath } from "./run-inbox.ts";

/**
 * The run lock: every change of a run goes through `processRunQueue`.
 *
 * 1. The events of one queue form batches: one waiter, one lock, one load, one commit for up to `BATCH_MAX` of them. The
 *    number of waiters for a run is the number of processes, not of results.
 * 2. A batch that does not get the lock in time fails with `lock_busy`; each of its events retries by its own policy.
 *    Requests at the gateway wait longer (`run_lock.gateway_wait_ms`).
 * 3. Events that arrive while the lock is held are processed before its release, up to a limit.
 * 4. A wide run pauses between its batches while other runs have work in this process (`fairness-throttle.ts`). It keeps
 *    the lock meanwhile, for a bounded time.
 * 5. A run that only this process writes needs no lock acquisition: the commit is guarded by "lock free"
 *    (`commitLockFree`), which saves two round trips.
 * 6. The lock saves work; the run's version and the fence make it correct.
 */
export const runLockKey = (runId: string): string => `cordum:wf:run:lock:${runId}`;

export async function processRunQueue(engine: RunContext, key: RunKey, queue: string): Promise<void> {
  let hasMore = false;
  do {
    if (key.path === "engine") await awaitTurn(engine, key.runId);
    try {
      const done = await commitLockFree(engine, key, queue);
      hasMore = done === "locked" ? await hold(engine, key, queue, hasMore) : done;
    } catch (error) {
      // The run's due time repeats what is left.
      hasMore = false;
      for (const [at, { queued, reject }] of engine.runInbox.take(queue, Number.POSITIVE_INFINITY).entries())
        reject(ownDelay(engine, key, error, queued, at));
    }
  } while (hasMore || !engine.runInbox.close(queue));
}

/**
 * Events that found the lock busy together draw separate delays, so that they do not return together. Each counts as a
 * retry; the first was counted at the acquisition.
 */
function ownDelay(
  engine: Needs<"world" | "settings" | "lockStats">,
  { runId, path }: RunKey,
  error: unknown,
  queued: QueuedRunEvent,
  at: number,
): unknown {
  const intent = intentOf(error);
  if (intent.kind !== "retry" || intent.retryClass !== "lock_busy") return error;
  const arms = armsIn(queued);
  const { policy } = engine.settings.for(arms).retry.lock_busy;
  const tries = 1 + (queued.kind === "job" ? (queued.busy?.count ?? 0) : 0);
  const delayMs = queued.kind === "job" ? nextDelay(policy, tries, () => engine.world.random.next()) : intent.delayMs;
  if (at > 0) {
    engine.lockStats.recordRefused(runLockKey(runId), engine.world.clock.now());
    recordBusyRetry(engine, path, policy, delayMs, arms);
  }
  if (queued.kind !== "job") return error;
  const { arm: retryArm } = engine.settings.labelled({}, arms);
  return Object.assign(retryAfter(error, delayMs, "lock_busy"), retryArm === undefined ? {} : { retryArm });
}

/**
 * Commits one batch without acquiring the lock. "locked": the run may have changed, is wide, or its lock is not free;
 * the lock is acquired instead.
 */
async function commitLockFree(
  engine: RunContext,
  { org, runId, path }: RunKey,
  queue: string,
): Promise<boolean | "locked"> {
  const { throttle, runInbox, runCache, world } = engine;
  const known = runCache.recallRun(runId);
  if (!known || !runCache.isTrusted || widthOf(known) > 0) return "locked";
  const { arms } = known.value;
  if (!engine.settings.for(arms).runLock.coalesce) return "locked";
  const key = runLockKey(runId);
  const fence = world.locks.reserveFence(key, org, known.value.lock?.fence ?? 0);
  if (fence === null) return "locked";
  const fromMs = world.clock.now();
  const batch = runInbox.take(queue, BATCH_MAX);
  const taken = totalLockWait({ waitedMs: 0, attempts: 1 }, usageOf(batch), fromMs);
  let hasMore: boolean | "locked" = false;
  try {
    hasMore = await advanceRun(engine, runId, batch, { key, fence, ...taken, isLockFree: true });
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
  if (hasMore === "locked") runInbox.putBack(queue, batch);
  else {
    recordAcquired(engine, { key, path, busyUsage: busyUsageOf(engine, path, queue), arms }, taken);
    const turn = { grantedMs: fromMs, doneMs: world.clock.now(), wasQueued: false };
    engine.contention.applied(key, path, firstAttempts(engine, batch), turn);
  }
  throttle.charge(runId, batch.length, world.clock.now() - fromMs, world.clock.now());
  return hasMore === true ? !engine.tasks.isClosed : hasMore;
}

function hold(engine: RunContext, { org, runId, path }: RunKey, queue: string, isGoingOn: boolean): Promise<boolean> {
  const arms = armsOf(engine, runId, queue);
  const { ttlMs, engineWaitMs, gatewayWaitMs, gatewayPoll } = engine.settings.for(arms).runLock;
  const [waitMs, poll] = path === "engine" ? [engineWaitMs, null] : [gatewayWaitMs, gatewayPoll];
  const present = preload(engine, runId);
  const busyUsage = busyUsageOf(engine, path, queue);
  const options: LockOptions = { key: runLockKey(runId), org, ttlMs, waitMs, path, poll, busyUsage, arms };
  return withLock(engine, options, async (lease, taken) => {
    const { key, fence } = lease;
    const acquiredMs = engine.world.clock.now();
    if (present !== null) await present(lease.waitedMs > 0);
    let hasMore = isGoingOn;
    const { throttle, world } = engine;
    const { clock } = world;
    const { holdMs, roundsMin } = throttle.isAlone(runId, clock.now()) ? ALONE : WITH_OTHERS;
    const untilMs = clock.now() + holdMs;
    for (let round = 0; round < ROUNDS_MAX && !lease.isLost; round++) {
      if (round >= roundsMin && clock.now() >= untilMs) break;
      if (!hasMore && engine.runInbox.isEmpty(queue)) break;
      if (round > 0 && clock.now() < untilMs) await awaitTurn(engine, runId);
      const fromMs = clock.now();
      const batch = engine.runInbox.take(queue, throttle.isAlone(runId, fromMs) ? BATCH_MAX : PACED_BATCH_MAX);
      try {
        hasMore = (await advanceRun(engine, runId, batch, { key, fence, ...taken })) === true;
        const isFirst = round === 0;
        const turn = { grantedMs: isFirst ? acquiredMs : fromMs, doneMs: clock.now() };
        const wasQueued = isFirst && lease.wasQueued;
        engine.contention.applied(key, path, firstAttempts(engine, batch), { ...turn, wasQueued });
      } catch (error) {
        // The failure of a batch fails each of its events.
        for (const { reject } of batch) reject(error);
        hasMore = false;
      }
      throttle.charge(
        runId,
        batch.length + widthOf(engine.runCache.recallRun(runId)),
        clock.now() - fromMs,
        clock.now(),
      );
    }
    return hasMore && !lease.isLost && !engine.tasks.isClosed;
  });
}

/**
 * Loads the run while the lock is acquired, which saves a round trip unless the lock was waited for. The version is
 * checked by the commit. Null: the cached run is used.
 */
function preload(engine: Needs<"world" | "runCache">, runId: string): ((isOld: boolean) => Promise<void>) | null {
  const { locks, store } = engine.world;
  const recalled = engine.runCache.recallRun(runId);
  if (!locks.isShared || (recalled && engine.runCache.isTrusted)) return null;
  engine.runCache.forgetRun(runId);
  const early = store.load(RUNS, runId).catch(() => null); // Loaded again under the lock.
  return async (isOld) => {
    const found = isOld ? null : await early;
    if (found && recalled) engine.runCache.recordRecall(found.version === recalled.version);
    if (found && !isRunFinal(found.value.state)) engine.runCache.rememberRun(found);
  };
}

/**
 * The arms of a run before it is loaded: those of a result that waits, or of the cached run. A run that this process has not
 * seen, with only timer or gateway events waiting, is acquired with the settings of the control arm; its results are not.
 */
function armsOf(
  { runInbox, runCache }: Needs<"runInbox" | "runCache">,
  runId: string,
  queue: string,
): Arms | undefined {
  for (const { queued } of runInbox.pending(queue)) {
    const arms = armsIn(queued);
    if (arms !== undefined) return arms;
  }
  return runCache.recallRun(runId)?.value.arms;
}

/** Results on the bus have counted failures; HTTP requests have none. */
function busyUsageOf(
  { runInbox }: Needs<"runInbox">,
  path: RunPath,
  queue: string,
): (() => readonly RetryUsage[]) | null {
  return path === "engine" ? () => usageOf(runInbox.pending(queue)) : null;
}

function usageOf(waiting: readonly PendingRunEvent[]): readonly RetryUsage[] {
  return waiting.flatMap(({ queued }) => (queued.kind === "job" && queued.busy ? [queued.busy] : []));
}

/** A redelivered event made its first attempt before its first failure, which came at the end of the wait in the queue. */
function firstAttempts({ settings }: Needs<"settings">, batch: readonly PendingRunEvent[]): readonly AppliedEvent[] {
  return batch.map(({ queued, arrivedMs, hasJoined }) => {
    const busy = queued.kind === "job" ? queued.busy : null;
    if (busy === null) return { arrivedMs, attempts: 1, hasJoined };
    const { engineWaitMs } = settings.for(armsIn(queued)).runLock;
    return { arrivedMs: Math.min(arrivedMs, busy.sinceMs - engineWaitMs), attempts: 1 + busy.count, hasJoined };
  });
}

/** Children in flight; their results will arrive soon. */
function widthOf(run: Versioned<Run> | null): number {
  let width = 0;
  for (const id in run?.value.steps) width += run.value.steps[id]?.fan?.open ?? 0;
  return width;
}
