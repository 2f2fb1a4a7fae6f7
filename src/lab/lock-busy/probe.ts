/**
 * Measures one row of `cordum lab lock-busy` by observing the lock and store ports: deliveries, lock attempts, lock
 * acquisitions and applied results.
 */
import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { RUNS } from "../../core/model/run.ts";
import { runLockKey } from "../../engine/runs/index.ts";
import type { Locks } from "../../ports/locks.ts";
import type { Change, Store } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { withLocks, withStore } from "../../sim/mutants/decorators.ts";
import type { Figures, Row } from "../experiment.ts";
import { binned, maxOf, mean, percentiles, sampled } from "../statistics.ts";
import { type Contender, jobIdOf } from "./scenario.ts";

/** The history of one result. */
interface ResultState {
  /** Deliveries by the bus, or HTTP requests of the worker. */
  deliveries: number;
  firstMs: number | null;
  /** When the lock was acquired under which the result was applied. */
  heldMs: number | null;
  appliedMs: number | null;
  isDead: boolean;
}

/** What happened to one result. */
export interface ResultOutcome extends Contender {
  /** Refused attempts before the one that applied it. */
  readonly busyTimes: number;
  readonly appliedMs: number;
  readonly waitedMs: number;
  readonly latencyMs: number;
}

export type LockObserver = Pick<Probe, "attempted" | "replied" | "committed">;

export class Probe {
  /** Resolves when every result is applied or a dead letter. */
  readonly done: Promise<void>;
  /** Jobs that were finished more than once. */
  readonly duplicates: string[] = [];
  readonly #now: () => number;
  readonly #results: ReadonlyMap<string, ResultState>;
  readonly #attemptsMs: number[] = [];
  readonly #retriesMs: number[] = [];
  /** Fence → time of acquisition. Fences of an org are unique. */
  readonly #heldSinceMs = new Map<number, number>();
  #commits = 0;
  #busy = 0;
  #held = 0;
  #open: number;
  #resolveDone: () => void = () => undefined;

  constructor(contenders: readonly Contender[], now: () => number) {
    this.#now = now;
    this.#results = new Map(contenders.map(({ jobId }): [string, ResultState] => [jobId, newResult()]));
    this.#open = contenders.length;
    this.done = new Promise((resolve) => {
      this.#resolveDone = resolve;
    });
  }

  delivered(jobId: string): void {
    const result = this.#results.get(jobId);
    if (result === undefined) return;
    result.deliveries += 1;
    result.firstMs ??= this.#now();
    if (result.deliveries > 1) this.#retriesMs.push(this.#now());
  }

  attempted(): void {
    this.#attemptsMs.push(this.#now());
  }

  /** `fence` is null when the lock was busy. */
  replied(fence: number | null): void {
    if (fence === null) this.#busy += 1;
    else {
      this.#held += 1;
      this.#heldSinceMs.set(fence, this.#now());
    }
  }

  committed(change: Change): void {
    const fence = runFenceOf(change);
    if (fence !== null) this.#commits += 1;
    for (const { table, value } of change.puts) {
      if (value === null) continue;
      if (table === JOBS.name) this.#jobWritten(value as Job, fence);
      else if (table === DEAD_LETTERS.name) this.#deadLetterWritten(value as DeadLetter);
    }
  }

  figures({ binMs, idealMs }: { readonly binMs: number; readonly idealMs: number }): Omit<Row, "key"> {
    const all = [...this.#results.values()];
    const startMs = all.reduce((least, { firstMs }) => Math.min(least, firstMs ?? least), Number.POSITIVE_INFINITY);
    const applied = all.filter(({ appliedMs }) => appliedMs !== null);
    const since = (result: ResultState, toMs: number | null): number => (toMs ?? 0) - (result.firstMs ?? 0);
    const waitsMs = applied.filter(({ heldMs }) => heldMs !== null).map((one) => since(one, one.heldMs));
    const latenciesMs = applied.map((one) => since(one, one.appliedMs));
    const drainMs = applied.length === 0 ? null : maxOf(applied.map(({ appliedMs }) => appliedMs ?? 0)) - startMs;
    const retried = all.filter(({ deliveries }) => deliveries > 1);
    const succeeded = retried.filter(({ deliveries, appliedMs }) => deliveries === 2 && appliedMs !== null);
    const arrivals = binned(this.#attemptsMs, binMs, startMs);
    const returns = binned(this.#retriesMs, binMs, startMs);
    const figures: Figures = {
      drain_ms: drainMs,
      ideal_ms: idealMs,
      ratio: drainMs === null ? null : drainMs / idealMs,
      busy_retries: this.#busy,
      attempts_per_acquisition: this.#held === 0 ? null : this.#attemptsMs.length / this.#held,
      first_retry_success: retried.length === 0 ? null : succeeded.length / retried.length,
      wait_ms: percentiles(waitsMs),
      result_latency_ms: percentiles(latenciesMs),
      arrivals: { bin_ms: binMs, peak: maxOf(arrivals), mean: mean(arrivals) },
      returns: returns.length === 0 ? null : { bin_ms: binMs, peak: maxOf(returns), mean: mean(returns) },
      commits: this.#commits,
      applied: applied.length,
      deliveries_max: maxOf(all.map(({ deliveries }) => deliveries)),
      dead_lettered: all.filter(({ isDead }) => isDead).length,
    };
    return { figures, series: { arrivals, waits_ms: sampled(waitsMs), latencies_ms: sampled(latenciesMs) } };
  }

  /** The applied results, in the order in which they were applied. */
  outcomes(contenders: readonly Contender[]): readonly ResultOutcome[] {
    const applied = contenders.flatMap((contender): readonly ResultOutcome[] => {
      const { deliveries = 0, firstMs, heldMs, appliedMs } = this.#results.get(contender.jobId) ?? {};
      if (firstMs == null || appliedMs == null) return [];
      const waitedMs = (heldMs ?? appliedMs) - firstMs;
      return [{ ...contender, busyTimes: deliveries - 1, appliedMs, waitedMs, latencyMs: appliedMs - firstMs }];
    });
    return applied.sort((a, b) => a.appliedMs - b.appliedMs);
  }

  /** Throws when a result was applied twice: the figures of such a history are void. */
  checkNoDuplicates(): void {
    const [first] = this.duplicates;
    if (first === undefined) return;
    throw new Error(`${this.duplicates.length} results were applied twice, such as that of job \`${first}\``);
  }

  #jobWritten({ id, state }: Job, fence: number | null): void {
    const result = this.#results.get(id);
    if (result === undefined || !isFinal(state)) return;
    if (result.appliedMs !== null) {
      // Not thrown here: the engine would treat the error as a failed commit and retry.
      this.duplicates.push(id);
      return;
    }
    result.appliedMs = this.#now();
    result.heldMs = fence === null ? null : (this.#heldSinceMs.get(fence) ?? null);
    this.#settleOne();
  }

  #deadLetterWritten({ source }: DeadLetter): void {
    const result = source.kind === "message" ? this.#results.get(jobIdOf(source.messageId)) : undefined;
    if (result === undefined || result.isDead || result.appliedMs !== null) return;
    result.isDead = true;
    this.#settleOne();
  }

  #settleOne(): void {
    this.#open -= 1;
    if (this.#open === 0) this.#resolveDone();
  }
}

/** The clock of the simulator, or of the machine. */
export interface HoldTimer {
  nowMs(): number;
  pause(delayMs: number): Promise<void>;
}

/**
 * Reports lock attempts and commits to the observer, and makes a turn of the run lock last `holdMs`: from the acquisition to
 * the end of the commit, with its loads and writes. Each further commit of the same turn takes `holdMs` again. A rejected
 * commit takes no extra time.
 */
export function observeLock(world: World, observer: LockObserver, holdMs: number, { nowMs, pause }: HoldTimer): World {
  /** Fence → start of the hold time of the next commit. */
  const startedMs = new Map<number, number>();
  const slowStore = (store: Store): Partial<Store> => ({
    commit: async (change) => {
      const requestedMs = nowMs();
      const committed = await store.commit(change);
      if (committed.kind !== "committed") return committed;
      if (change.puts.some(({ table }) => table === RUNS.name)) {
        const fence = runFenceOf(change);
        const restMs = ((fence === null ? undefined : startedMs.get(fence)) ?? requestedMs) + holdMs - nowMs();
        if (restMs > 0) await pause(restMs);
        // Lock-free commits have fence 0.
        if (fence !== null && fence > 0) startedMs.set(fence, nowMs());
      }
      observer.committed(change);
      return committed;
    },
  });
  const observedLocks = (locks: Locks): Partial<Locks> => ({
    acquire: async (request) => {
      if (!request.key.startsWith(RUN_LOCK)) return locks.acquire(request);
      observer.attempted();
      const acquired = await locks.acquire(request);
      const fence = acquired.kind === "held" ? acquired.lease.fence : null;
      if (fence !== null) startedMs.set(fence, nowMs());
      observer.replied(fence);
      return acquired;
    },
  });
  return withLocks(observedLocks)(withStore(slowStore)(world));
}

/** The fence of a change made under a run lock; null for other changes. */
function runFenceOf({ guards }: Change): number | null {
  for (const guard of guards) if (guard.kind === "fence" && guard.table === RUNS.name) return guard.fence;
  return null;
}

const newResult = (): ResultState => ({
  ...{ deliveries: 0, firstMs: null, heldMs: null, appliedMs: null, isDead: false },
});

const RUN_LOCK = runLockKey("");
