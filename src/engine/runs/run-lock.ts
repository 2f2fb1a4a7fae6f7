import type { Job } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { RetryUsage } from "../../core/retry/budget.ts";
import { intentOf, retryAfter } from "../../core/retry/intent.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { RunEvent } from "../../core/workflow/run/advance.ts";
import type { Guard, Put, Versioned } from "../../ports/store.ts";
import type { Engine } from "../engine.ts";
import { awaitTurn } from "../fairness-throttle.ts";
import { noteBusyRetry, noteFirstRetry, recordAcquired, totalLockWait, withLock } from "../with-lock.ts";
import { advanceRun } from "./advance-run.ts";
import type { PendingRunEvent, RunEventOutcome } from "./run-inbox.ts";

/**
 * The run lock: whatever changes a run comes through here.
 *
 * 1. News of one run that meet in one process form a batch: one waiter, one lock, one load, one commit for all of them
 *    (`run_lock.coalesce`; off, each comes for itself, as at the founding). So the waiters for a run are as many as the
 *    processes, not as many as the results.
 * 2. Who does not get the lock in time fails with `lock_busy`, and everybody in its batch with it: each comes back by its
 *    own policy. People who wait at the gateway have a queue and a patience of their own.
 * 3. What comes while the lock is held is taken in before it is given back, up to a limit: then others have their turn.
 * 4. A wide run rests between its turns while others have work in this process (see `pace.ts`); it keeps the lock
 *    meanwhile, so that it is not taken for a few results each time, and no longer than in any case.
 * 5. Where this process has had the run for itself, it needs the lock for no longer than a commit takes: then the commit
 *    itself sees to it that nobody else has the lock, and two round trips are spared (`inAMoment`).
 * 6. The lock saves work; the version of the run and the fence make it correct.
 */
export type QueuedRunEvent =
  /** A step's job has ended: `found` is what the decision was based on. */
  | {
      readonly kind: "job";
      readonly found: Versioned<Job>;
      readonly next: Job;
      readonly besides: readonly Put[];
      readonly guards: readonly Guard[];
      /** How often it found the run's lock busy before, and since when; null: not yet, or nobody counted. */
      readonly busy: RetryUsage | null;
    }
  | { readonly kind: "event"; readonly event: RunEvent; readonly besides: readonly Put[] };

export interface RunKey {
  readonly org: string;
  readonly runId: string;
  readonly path: RunPath;
}

/** Results come by the engine's path; what somebody waits for over HTTP by the gateway's. */
export type RunPath = "engine" | "gateway";

export const runLockKey = (runId: string): string => `cordum:wf:run:lock:${runId}`;

export function enqueueRunEvent(engine: Engine, key: RunKey, news: QueuedRunEvent): Promise<RunEventOutcome> {
  const shared = `${key.path} ${key.runId}`;
  const queue = engine.settings.current.runLock.coalesce ? shared : engine.runInbox.ownKey(shared);
  const { throttle, world } = engine;
  throttle.begin(key.runId, world.clock.now());
  const told = new Promise<RunEventOutcome>((resolve, reject) => {
    if (engine.runInbox.add(queue, { queued: news, resolve, reject })) engine.jobCache.track(work(engine, key, queue));
  });
  // Once, though an answer may be given twice: first to one of a batch, then to the batch as a whole.
  const end = (): void => throttle.end(key.runId, world.clock.now());
  void told.then(({ kind }) => {
    end();
    if (kind === "done" && news.kind === "job" && news.busy?.count === 1) noteFirstRetry(engine, key.path);
  }, end);
  return told;
}

/** Something is left to be done at once, and nobody holds the run's lock. If this process dies, the sweeper does it. */
export function continueRun(engine: Engine, { org, id: runId }: Run): void {
  const told = enqueueRunEvent(
    engine,
    { org, runId, path: "engine" },
    { kind: "event", event: { kind: "time" }, besides: [] },
  );
  engine.jobCache.track(
    told.catch((error: unknown) => engine.world.log.write("warn", "run_left_to_sweeper", { error: String(error) })),
  );
}

async function work(engine: Engine, key: RunKey, queue: string): Promise<void> {
  let hasMore = false;
  do {
    if (key.path === "engine") await awaitTurn(engine, key.runId);
    try {
      const done = await commitLockFree(engine, key, queue);
      hasMore = done === "locked" ? await hold(engine, key, queue, hasMore) : done;
    } catch (error) {
      // What is left to be done then is due soon: the run says so itself (`dueMs`).
      hasMore = false;
      for (const [at, { queued: news, reject }] of engine.runInbox.take(queue, Number.POSITIVE_INFINITY).entries())
        reject(ownDelay(engine, key.path, error, news, at));
    }
  } while (hasMore || !engine.runInbox.leave(queue));
}

/**
 * Those who found the lock busy together do not come back together: each draws a delay of its own. Each is a retry of its
 * own, too; the first was counted where the lock was asked for.
 */
function ownDelay(engine: Engine, path: RunPath, error: unknown, news: QueuedRunEvent, at: number): unknown {
  const intent = intentOf(error);
  if (intent.kind !== "retry" || intent.retryClass !== "lock_busy") return error;
  const { policy } = engine.settings.current.retry.lock_busy;
  const tries = 1 + (news.kind === "job" ? (news.busy?.count ?? 0) : 0);
  const delayMs = news.kind === "job" ? nextDelay(policy, tries, () => engine.world.random.next()) : intent.delayMs;
  if (at > 0) noteBusyRetry(engine, path, policy, delayMs);
  return news.kind === "job" ? retryAfter(error, delayMs, "lock_busy") : error;
}

/**
 * One batch, with the lock for the moment of its commit. Where the run may be another one by now, is wide, or the lock is
 * not to be had like that, it is acquired.
 */
async function commitLockFree(
  engine: Engine,
  { org, runId, path }: RunKey,
  queue: string,
): Promise<boolean | "locked"> {
  const { throttle, runInbox: runs, world } = engine;
  const known = runs.recallRun(runId);
  if (!known || !runs.isTrusted || !engine.settings.current.runLock.coalesce || widthOf(known) > 0) return "locked";
  const key = runLockKey(runId);
  const fence = world.locks.reserveFence(key, org, known.value.lock?.fence ?? 0);
  if (fence === null) return "locked";
  const fromMs = world.clock.now();
  const batch = runs.take(queue, BATCH_MAX);
  const taken = totalLockWait({ waitedMs: 0, attempts: 1 }, accountsOf(batch), fromMs);
  let hasMore: boolean | "locked" = false;
  try {
    hasMore = await advanceRun(engine, runId, batch, { key, fence, ...taken, isLockFree: true });
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
  if (hasMore === "locked") runs.giveBack(queue, batch);
  else recordAcquired(engine, { key, path, accounts: accountsFor(engine, path, queue) }, taken);
  throttle.spend(runId, batch.length, world.clock.now() - fromMs, world.clock.now());
  return hasMore === true ? !engine.jobCache.isClosed : hasMore;
}

function hold(engine: Engine, { org, runId, path }: RunKey, queue: string, isGoingOn: boolean): Promise<boolean> {
  const { ttlMs, engineWaitMs, gatewayWaitMs, gatewayPoll } = engine.settings.current.runLock;
  const [waitMs, poll] = path === "engine" ? [engineWaitMs, null] : [gatewayWaitMs, gatewayPoll];
  const present = lookAt(engine, runId);
  const accounts = accountsFor(engine, path, queue);
  const request = { key: runLockKey(runId), org, ttlMs, waitMs, path, poll, accounts };
  return withLock(engine, request, async (lease, taken) => {
    const { key, fence } = lease;
    if (present !== null) await present(lease.waitedMs > 0);
    let hasMore = isGoingOn;
    const { throttle, world } = engine;
    const { clock } = world;
    const { holdMs, roundsMin } = throttle.isAlone(runId, clock.now()) ? ALONE : AMONG_OTHERS;
    const untilMs = clock.now() + holdMs;
    for (let round = 0; round < ROUNDS_MAX && !lease.isLost; round++) {
      if (round >= roundsMin && clock.now() >= untilMs) break;
      if (!hasMore && engine.runInbox.isEmpty(queue)) break;
      if (round > 0 && clock.now() < untilMs) await awaitTurn(engine, runId);
      const fromMs = clock.now();
      const batch = engine.runInbox.take(queue, throttle.isAlone(runId, fromMs) ? BATCH_MAX : PACED_BATCH_MAX);
      try {
        hasMore = (await advanceRun(engine, runId, batch, { key, fence, ...taken })) === true;
      } catch (error) {
        // Whatever goes wrong with a batch goes wrong for each in it.
        for (const { reject } of batch) reject(error);
        hasMore = false;
      }
      throttle.spend(
        runId,
        batch.length + widthOf(engine.runInbox.recallRun(runId)),
        clock.now() - fromMs,
        clock.now(),
      );
    }
    return hasMore && !lease.isLost && !engine.jobCache.isClosed;
  });
}

/**
 * The run as it is now, where others may have written it since: asked for together with the lock, so that it costs no
 * further round trip unless the lock was waited for. Whether it was still so under the lock, the version says. Null: what
 * this process wrote last is as good.
 */
function lookAt(engine: Engine, runId: string): ((isOld: boolean) => Promise<void>) | null {
  const { locks, store } = engine.world;
  const recalled = engine.runInbox.recallRun(runId);
  if (!locks.isShared || (recalled && engine.runInbox.isTrusted)) return null;
  engine.runInbox.forgetRun(runId);
  const early = store.load(RUNS, runId).catch(() => null); // Asked for again under the lock.
  return async (isOld) => {
    const found = isOld ? null : await early;
    if (found && recalled) engine.runInbox.noteRecalled(found.version === recalled.version);
    if (found && !isRunFinal(found.value.state)) engine.runInbox.rememberRun(found);
  };
}

/** Results that come by the bus have an account each; whoever asks over HTTP has none. */
function accountsFor({ runInbox: runs }: Engine, path: RunPath, queue: string): (() => readonly RetryUsage[]) | null {
  return path === "engine" ? () => accountsOf(runs.waiting(queue)) : null;
}

function accountsOf(waiting: readonly PendingRunEvent[]): readonly RetryUsage[] {
  return waiting.flatMap(({ queued: news }) => (news.kind === "job" && news.busy ? [news.busy] : []));
}

/** The children that are out: their results are on their way. */
function widthOf(run: Versioned<Run> | null): number {
  let width = 0;
  for (const id in run?.value.steps) width += run.value.steps[id]?.fan?.open ?? 0;
  return width;
}

/** Results that one commit takes in: enough to share its cost, few enough that nobody else waits long for it. */
export const BATCH_MAX = 16;
/** The same while other runs come by: smaller turns, more of them for one lock. */
const PACED_BATCH_MAX = 4;
/** Commits for which a lock is held, and for how long, before others have their turn. */
const ROUNDS_MAX = 64;
const ALONE = { holdMs: 100, roundsMin: 1 };
/** With rests in between: shorter, for those who wait for the lock meanwhile; but not for a handful of results each. */
const AMONG_OTHERS = { holdMs: 40, roundsMin: 3 };
