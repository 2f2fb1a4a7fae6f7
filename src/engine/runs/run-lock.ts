import type { Job } from "../../core/model/job.ts";
import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { Spent } from "../../core/retry/budget.ts";
import { intentOf, retryAfter } from "../../core/retry/intent.ts";
import { nextDelay } from "../../core/retry/policies.ts";
import type { RunEvent } from "../../core/workflow/run/advance.ts";
import type { Guard, Put, Versioned } from "../../ports/store.ts";
import type { Flow } from "../engine.ts";
import { letOthersPass } from "../fairness-throttle.ts";
import { noteBusyRetry, noteFirstRetry, noteTaken, takenSince, withLock } from "../with-lock.ts";
import { advanceRun } from "./advance-run.ts";
import type { Answered, Waiting } from "./run-inbox.ts";

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
export type News =
  /** A step's job has ended: `found` is what the decision was based on. */
  | {
      readonly kind: "job";
      readonly found: Versioned<Job>;
      readonly next: Job;
      readonly besides: readonly Put[];
      readonly guards: readonly Guard[];
      /** How often it found the run's lock busy before, and since when; null: not yet, or nobody counted. */
      readonly busy: Spent | null;
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

export function tellRun(flow: Flow, key: RunKey, news: News): Promise<Answered> {
  const shared = `${key.path} ${key.runId}`;
  const queue = flow.settings.current.runLock.coalesce ? shared : flow.runs.ownKey(shared);
  const { pace, world } = flow;
  pace.begin(key.runId, world.clock.now());
  const told = new Promise<Answered>((resolve, reject) => {
    if (flow.runs.add(queue, { news, resolve, reject })) flow.desk.track(work(flow, key, queue));
  });
  // Once, though an answer may be given twice: first to one of a batch, then to the batch as a whole.
  const end = (): void => pace.end(key.runId, world.clock.now());
  void told.then(({ kind }) => {
    end();
    if (kind === "done" && news.kind === "job" && news.busy?.count === 1) noteFirstRetry(flow, key.path);
  }, end);
  return told;
}

/** Something is left to be done at once, and nobody holds the run's lock. If this process dies, the sweeper does it. */
export function goOn(flow: Flow, { org, id: runId }: Run): void {
  const told = tellRun(flow, { org, runId, path: "engine" }, { kind: "event", event: { kind: "time" }, besides: [] });
  flow.desk.track(
    told.catch((error: unknown) => flow.world.log.write("warn", "run_left_to_sweeper", { error: String(error) })),
  );
}

async function work(flow: Flow, key: RunKey, queue: string): Promise<void> {
  let hasMore = false;
  do {
    if (key.path === "engine") await letOthersPass(flow, key.runId);
    try {
      const done = await inAMoment(flow, key, queue);
      hasMore = done === "locked" ? await hold(flow, key, queue, hasMore) : done;
    } catch (error) {
      // What is left to be done then is due soon: the run says so itself (`dueMs`).
      hasMore = false;
      for (const [at, { news, reject }] of flow.runs.take(queue, Number.POSITIVE_INFINITY).entries())
        reject(ownDelay(flow, key.path, error, news, at));
    }
  } while (hasMore || !flow.runs.leave(queue));
}

/**
 * Those who found the lock busy together do not come back together: each draws a delay of its own. Each is a retry of its
 * own, too; the first was counted where the lock was asked for.
 */
function ownDelay(flow: Flow, path: RunPath, error: unknown, news: News, at: number): unknown {
  const intent = intentOf(error);
  if (intent.kind !== "retry" || intent.retryClass !== "lock_busy") return error;
  const { policy } = flow.settings.current.retry.lock_busy;
  const tries = 1 + (news.kind === "job" ? (news.busy?.count ?? 0) : 0);
  const delayMs = news.kind === "job" ? nextDelay(policy, tries, () => flow.world.random.next()) : intent.delayMs;
  if (at > 0) noteBusyRetry(flow, path, policy, delayMs);
  return news.kind === "job" ? retryAfter(error, delayMs, "lock_busy") : error;
}

/**
 * One batch, with the lock for the moment of its commit. Where the run may be another one by now, is wide, or the lock is
 * not to be had like that, it is acquired.
 */
async function inAMoment(flow: Flow, { org, runId, path }: RunKey, queue: string): Promise<boolean | "locked"> {
  const { pace, runs, world } = flow;
  const known = runs.recallRun(runId);
  if (!known || !runs.isTrusted || !flow.settings.current.runLock.coalesce || widthOf(known) > 0) return "locked";
  const key = runLockKey(runId);
  const fence = world.locks.moment(key, org, known.value.lock?.fence ?? 0);
  if (fence === null) return "locked";
  const fromMs = world.clock.now();
  const batch = runs.take(queue, BATCH_MAX);
  const taken = takenSince({ waitedMs: 0, attempts: 1 }, accountsOf(batch), fromMs);
  let hasMore: boolean | "locked" = false;
  try {
    hasMore = await advanceRun(flow, runId, batch, { key, fence, ...taken, isMoment: true });
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
  if (hasMore === "locked") runs.giveBack(queue, batch);
  else noteTaken(flow, { key, path, accounts: accountsFor(flow, path, queue) }, taken);
  pace.spend(runId, batch.length, world.clock.now() - fromMs, world.clock.now());
  return hasMore === true ? !flow.desk.isClosed : hasMore;
}

function hold(flow: Flow, { org, runId, path }: RunKey, queue: string, isGoingOn: boolean): Promise<boolean> {
  const { ttlMs, engineWaitMs, gatewayWaitMs, gatewayPoll } = flow.settings.current.runLock;
  const [waitMs, poll] = path === "engine" ? [engineWaitMs, null] : [gatewayWaitMs, gatewayPoll];
  const present = lookAt(flow, runId);
  const accounts = accountsFor(flow, path, queue);
  const wish = { key: runLockKey(runId), org, ttlMs, waitMs, path, poll, accounts };
  return withLock(flow, wish, async (lease, taken) => {
    const { key, fence } = lease;
    if (present !== null) await present(lease.waitedMs > 0);
    let hasMore = isGoingOn;
    const { pace, world } = flow;
    const { clock } = world;
    const { holdMs, roundsMin } = pace.isAlone(runId, clock.now()) ? ALONE : AMONG_OTHERS;
    const untilMs = clock.now() + holdMs;
    for (let round = 0; round < ROUNDS_MAX && !lease.isLost; round++) {
      if (round >= roundsMin && clock.now() >= untilMs) break;
      if (!hasMore && flow.runs.isEmpty(queue)) break;
      if (round > 0 && clock.now() < untilMs) await letOthersPass(flow, runId);
      const fromMs = clock.now();
      const batch = flow.runs.take(queue, pace.isAlone(runId, fromMs) ? BATCH_MAX : PACED_BATCH_MAX);
      try {
        hasMore = (await advanceRun(flow, runId, batch, { key, fence, ...taken })) === true;
      } catch (error) {
        // Whatever goes wrong with a batch goes wrong for each in it.
        for (const { reject } of batch) reject(error);
        hasMore = false;
      }
      pace.spend(runId, batch.length + widthOf(flow.runs.recallRun(runId)), clock.now() - fromMs, clock.now());
    }
    return hasMore && !lease.isLost && !flow.desk.isClosed;
  });
}

/**
 * The run as it is now, where others may have written it since: asked for together with the lock, so that it costs no
 * further round trip unless the lock was waited for. Whether it was still so under the lock, the version says. Null: what
 * this process wrote last is as good.
 */
function lookAt(flow: Flow, runId: string): ((isOld: boolean) => Promise<void>) | null {
  const { locks, store } = flow.world;
  const recalled = flow.runs.recallRun(runId);
  if (!locks.isShared || (recalled && flow.runs.isTrusted)) return null;
  flow.runs.forgetRun(runId);
  const early = store.load(RUNS, runId).catch(() => null); // Asked for again under the lock.
  return async (isOld) => {
    const found = isOld ? null : await early;
    if (found && recalled) flow.runs.noteRecalled(found.version === recalled.version);
    if (found && !isRunFinal(found.value.state)) flow.runs.rememberRun(found);
  };
}

/** Results that come by the bus have an account each; whoever asks over HTTP has none. */
function accountsFor({ runs }: Flow, path: RunPath, queue: string): (() => readonly Spent[]) | null {
  return path === "engine" ? () => accountsOf(runs.waiting(queue)) : null;
}

function accountsOf(waiting: readonly Waiting[]): readonly Spent[] {
  return waiting.flatMap(({ news }) => (news.kind === "job" && news.busy ? [news.busy] : []));
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
