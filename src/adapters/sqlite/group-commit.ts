import type { Cancel, Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import type { BatchFailure, Call, CommitExecutor, Failure, Needs, Operation } from "./commit-executor.ts";
import { DamageError } from "./integrity/checksum.ts";

/**
 * Group commit: the calls of one tick run as one batch and become durable with one write.
 *
 * 1. Batches run in order: a call made after a write has resolved sees that write.
 * 2. A promise resolves after its batch is on disk, and rejects when that failed.
 * 3. At most `IN_FLIGHT_MAX` batches are in flight, one being written and one behind it. A slow disk makes larger batches,
 *    not a longer queue.
 * 4. Queries are batches of their own, one at a time, because they may wait for a checkpoint. Other batches pass them.
 * 5. Piggybacked writes join the next batch that has changes, or get a batch of their own after `PIGGYBACK_MS`. A crash may
 *    lose them, so they must only save work after a restart.
 */
export class GroupCommit {
  readonly #executor: Executor;
  readonly #clock: Clock;
  readonly #log: Log;
  #changes: PendingCall[] = [];
  #reads: PendingCall[] = [];
  #queries: PendingCall[] = [];
  #piggybacked: Operation[] = [];
  #isPiggybackDue = false;
  #piggybackTimer: Cancel | null = null;
  #isArmed = false;
  #inFlight = 0;
  #afterBatch: (() => void)[] = [];
  #lastBatch: Promise<void> = Promise.resolve();
  #querying: Promise<void> | null = null;
  #hasLoggedCrash = false;
  #damage: DamageError | null = null;
  #closed: Promise<void> | null = null;

  constructor(executor: Executor, clock: Clock, log: Log) {
    this.#executor = executor;
    this.#clock = clock;
    this.#log = log;
  }

  write<T>(needs: Needs, run: () => T): Promise<T> {
    return this.#enqueue(this.#changes, needs, run, null);
  }

  /** Resolves with null, without a write, if `isObsolete` returns true when the batch starts. */
  writeUnless<T>(isObsolete: () => boolean, needs: Needs, run: () => T): Promise<T | null> {
    return this.#enqueue<T | null>(this.#changes, needs, run, isObsolete);
  }

  /** Runs after the changes of its batch. */
  read<T>(needs: Needs, run: () => T): Promise<T> {
    return this.#enqueue(this.#reads, needs, run, null);
  }

  /** A read of whole tables (4). */
  query<T>(needs: Needs, run: () => T): Promise<T> {
    return this.#enqueue(this.#queries, needs, run, null);
  }

  /** See (5). */
  piggyback(needs: Needs, run: () => void): void {
    this.#addPiggybacked({ needs, run });
  }

  /** The next batch includes the piggybacked writes. */
  flushPiggybacked(): void {
    if (this.#piggybacked.length > 0) this.#isPiggybackDue = true;
  }

  /** Calls back one macrotask after the next batch has settled, or in the next macrotask when no batch is pending. */
  afterBatch(callback: () => void): void {
    if (this.#inFlight === 0 && !this.#isArmed) setImmediate(callback);
    else this.#afterBatch.push(callback);
  }

  /** The directory is damaged: all later calls are rejected with the error. */
  fail(damage: DamageError): void {
    this.#damage = damage;
  }

  /** Writes everything that is queued. Later calls are rejected. */
  close(): Promise<void> {
    this.#closed ??= this.#drain().then(() => this.#executor.close());
    return this.#closed;
  }

  async #drain(): Promise<void> {
    this.#isPiggybackDue = true;
    do {
      this.#send();
      await Promise.all([this.#lastBatch, this.#querying]);
    } while (this.#hasQueued || this.#queries.length > 0 || this.#piggybacked.length > 0);
    this.#piggybackTimer?.();
  }

  get #hasQueued(): boolean {
    return this.#changes.length > 0 || this.#reads.length > 0;
  }

  #enqueue<T>(queue: PendingCall[], needs: Needs, run: () => T, isObsolete: PendingCall["isObsolete"]): Promise<T> {
    if (this.#closed) return Promise.reject(new DirectoryFailure("the data directory is closed"));
    if (this.#damage) return Promise.reject(this.#damage);
    return new Promise<T>((resolve, reject) => {
      queue.push({
        needs,
        run,
        isObsolete,
        resolve: resolve as (result: unknown) => void,
        reject,
        result: undefined,
        failure: null,
      });
      this.#arm();
    });
  }

  #addPiggybacked(operation: Operation): void {
    if (this.#closed) return;
    this.#piggybacked.push(operation);
    this.#piggybackTimer ??= this.#clock.after(PIGGYBACK_MS, () => {
      this.#piggybackTimer = null;
      this.#isPiggybackDue = true;
      this.#arm();
    });
  }

  #arm(): void {
    if (this.#isArmed || (this.#inFlight >= IN_FLIGHT_MAX && !this.#canQuery)) return;
    this.#isArmed = true;
    setImmediate(this.#sendArmed);
  }

  readonly #sendArmed = (): void => {
    this.#isArmed = false;
    if (!this.#closed) this.#send();
    if (this.#inFlight === 0) this.#callAfterBatch();
  };

  #send(): void {
    if (this.#inFlight < IN_FLIGHT_MAX) this.#sendBatch();
    // After the batch: a query sees the changes that were made before it in its tick.
    if (this.#canQuery) this.#sendQueries();
    if (this.#hasQueued) this.#arm();
  }

  #sendBatch(): void {
    const changes = this.#takeChanges();
    const reads = this.#reads.splice(0, BATCH_MAX);
    const piggybacked = this.#takePiggybacked(changes.length > 0);
    if (changes.length + reads.length + piggybacked.length === 0) return;
    this.#inFlight += 1;
    const done = this.#executor.run({ piggybacked, changes, reads });
    this.#lastBatch = this.#settle(done, piggybacked, changes, reads).then(() => {
      this.#inFlight -= 1;
      this.#callAfterBatch();
      if (this.#hasQueued || this.#isPiggybackDue) this.#arm();
    });
  }

  get #canQuery(): boolean {
    return this.#querying === null && this.#queries.length > 0;
  }

  #sendQueries(): void {
    const reads = this.#queries.splice(0, BATCH_MAX);
    const piggybacked = this.#takePiggybacked(false);
    const done = this.#executor.query({ piggybacked, changes: [], reads });
    this.#querying = this.#settle(done, piggybacked, [], reads).then(() => {
      this.#querying = null;
      if (this.#canQuery) this.#arm();
    });
  }

  /** Resolves when all promises of the batch are settled. */
  #settle(
    done: Promise<BatchFailure | null>,
    piggybacked: readonly Operation[],
    changes: readonly PendingCall[],
    reads: readonly PendingCall[],
  ): Promise<void> {
    return done.then(
      (failure) => {
        for (const call of changes) settleCall(call);
        for (const call of reads) settleCall(call);
        if (failure !== null) this.#onFailure(failure, piggybacked);
      },
      (error: unknown) => {
        for (const { reject } of changes) reject(error);
        for (const { reject } of reads) reject(error);
        if (!this.#hasLoggedCrash) this.#log.write("error", "store.executor_failed", { error: String(error) });
        this.#hasLoggedCrash = true;
      },
    );
  }

  /** The callbacks run in a later macrotask, after the continuations of the settled promises. */
  #callAfterBatch(): void {
    for (const callback of this.#afterBatch.splice(0)) setImmediate(callback);
  }

  #takeChanges(): PendingCall[] {
    const changes = this.#changes.splice(0, BATCH_MAX);
    return changes.filter(({ isObsolete, resolve }) => {
      if (isObsolete === null || !isObsolete()) return true;
      resolve(null);
      return false;
    });
  }

  #takePiggybacked(hasChanges: boolean): readonly Operation[] {
    if (this.#piggybacked.length === 0 || !(hasChanges || this.#isPiggybackDue)) return NO_OPERATIONS;
    const piggybacked = this.#piggybacked;
    this.#piggybacked = [];
    this.#isPiggybackDue = false;
    this.#piggybackTimer?.();
    this.#piggybackTimer = null;
    return piggybacked;
  }

  #onFailure({ calls, stage, error }: BatchFailure, piggybacked: readonly Operation[]): void {
    this.#log.write("error", "store.write_failed", { calls, stage, error: error.message });
    // A disk that is full for a minute must not lose them. An operation that throws is not repeated.
    if (stage === "commit") for (const operation of piggybacked) this.#addPiggybacked(operation);
  }
}

/** `run` and `query` reject only on a defect. `close` makes everything durable and releases the directory. */
export type Executor = Pick<CommitExecutor, "run" | "query" | "close">;

/** The data directory failed. The outcome of the call is unknown. */
export class DirectoryFailure extends Error {
  override readonly name = "DirectoryFailure";
  readonly code = "STORE_UNAVAILABLE";
}

interface PendingCall extends Call {
  readonly isObsolete: (() => boolean) | null;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

function settleCall({ failure, result, resolve, reject }: PendingCall): void {
  if (failure === null) resolve(result);
  else reject(errorOf(failure));
}

function errorOf({ isPassing, error }: Failure): Error {
  if (error instanceof DamageError) return error;
  const options = { cause: error };
  return isPassing ? new DirectoryFailure(error.message, options) : new Error(error.message, options);
}

const NO_OPERATIONS: readonly Operation[] = [];
const BATCH_MAX = 500;
const IN_FLIGHT_MAX = 2;
const PIGGYBACK_MS = 20;
