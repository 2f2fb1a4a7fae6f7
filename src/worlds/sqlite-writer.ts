import type { Cancel, Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Database } from "./sqlite.ts";

/**
 * The one writer of a data directory: group commit.
 *
 * 1. All calls of one tick run in one transaction: first the changes, in the order in which they came, then the reads.
 *    None of them awaited another, so any order is a fair one, and this one lets the changes be written in bulk.
 * 2. A promise resolves only after its transaction is on disk. If the commit fails, all of them reject.
 * 3. A call that throws takes nobody with it: the transaction is rolled back and each call runs again alone. So calls
 *    must be repeatable; what they change in memory is undone by their participant's `rolledBack`.
 * 4. What rides along (`later`) costs no transaction of its own while others come by, and waits `LATER_MS` at most.
 *    It is for facts that may be lost in a crash, because they are then found out again.
 * 5. A tick that only reads writes nothing and does not wait for the disk.
 */
export class Writer {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #participants: Participant[] = [];
  #changes: Call[] = [];
  #reads: Call[] = [];
  #riders: Rider[] = [];
  #ridersDue = false;
  #ridersTimer: Cancel | null = null;
  #armed = false;
  #closed = false;

  constructor(db: Database, clock: Clock, log: Log) {
    this.#db = db;
    this.#clock = clock;
    this.#log = log;
  }

  join(participant: Participant): void {
    this.#participants.push(participant);
  }

  /** Runs in the next transaction; resolves when that is durable. */
  change<T>(run: () => T): Promise<T> {
    return this.#call(this.#changes, run);
  }

  read<T>(run: () => T): Promise<T> {
    return this.#call(this.#reads, run);
  }

  /** A read that must see what was left to ride along. */
  readLatest<T>(run: () => T): Promise<T> {
    if (this.#riders.length > 0) this.#ridersDue = true;
    return this.#call(this.#reads, run);
  }

  later(run: Rider): void {
    if (this.#closed) return;
    this.#riders.push(run);
    this.#ridersTimer ??= this.#clock.after(LATER_MS, () => {
      this.#ridersTimer = null;
      this.#ridersDue = true;
      this.#arm();
    });
  }

  /** Writes what is waiting and refuses everything after. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ridersDue = true;
    do this.#flush();
    while (this.#changes.length > 0 || this.#reads.length > 0);
    this.#ridersTimer?.();
  }

  #call<T>(queue: Call[], run: () => T): Promise<T> {
    if (this.#closed) return Promise.reject(new Error("the data directory is closed"));
    return new Promise<T>((resolve, reject) => {
      queue.push({ run, resolve: resolve as (result: unknown) => void, reject, result: undefined });
      this.#arm();
    });
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    setImmediate(this.#flush);
  }

  readonly #flush = (): void => {
    this.#armed = false;
    const changes = this.#changes;
    const reads = this.#reads;
    this.#changes = changes.length > BATCH_MAX ? changes.splice(BATCH_MAX) : [];
    this.#reads = reads.length > BATCH_MAX ? reads.splice(BATCH_MAX) : [];
    if (this.#changes.length > 0 || this.#reads.length > 0) this.#arm();
    this.#runBatch(changes, reads, this.#takeRiders(changes.length > 0));
  };

  #takeRiders(others: boolean): readonly Rider[] {
    if (this.#riders.length === 0 || !(others || this.#ridersDue)) return [];
    const riders = this.#riders;
    this.#riders = [];
    this.#ridersDue = false;
    this.#ridersTimer?.();
    this.#ridersTimer = null;
    return riders;
  }

  #runBatch(changes: readonly Call[], reads: readonly Call[], riders: readonly Rider[]): void {
    const size = changes.length + reads.length + riders.length;
    if (size === 0) return;
    const failure = this.#transact(changes, reads, riders);
    if (failure !== null && failure.stage === "call" && size > 1) {
      this.#runAlone(changes, reads, riders);
      return;
    }
    for (const call of changes) settle(call, failure);
    for (const call of reads) settle(call, failure);
    if (failure === null) return;
    this.#report(size, failure);
    // A disk that is full for a minute must not lose them; a rider that is itself at fault must not come for ever.
    if (failure.stage === "commit") for (const rider of riders) this.later(rider);
  }

  #runAlone(changes: readonly Call[], reads: readonly Call[], riders: readonly Rider[]): void {
    let failed = 0;
    let first: Failure | null = null;
    const note = (failure: Failure | null): Failure | null => {
      if (failure !== null) failed++;
      first ??= failure;
      return failure;
    };
    for (const rider of riders) note(this.#transact([], [], [rider]));
    for (const call of changes) settle(call, note(this.#transact([call], [], [])));
    for (const call of reads) settle(call, note(this.#transact([], [call], [])));
    if (first !== null) this.#report(failed, first);
  }

  #report(calls: number, failure: Failure): void {
    this.#log.write("error", "store.write_failed", { calls, stage: failure.stage, error: String(failure.error) });
  }

  /** Runs everything in one transaction. A lone read needs none. */
  #transact(changes: readonly Call[], reads: readonly Call[], riders: readonly Rider[]): Failure | null {
    const isLoneRead = changes.length === 0 && riders.length === 0 && reads.length === 1;
    let stage: Failure["stage"] = "commit";
    try {
      if (!isLoneRead) this.#db.exec("begin");
      stage = "call";
      for (const rider of riders) rider();
      for (const call of changes) call.result = call.run();
      for (const participant of this.#participants) participant.flush();
      for (const call of reads) call.result = call.run();
      stage = "commit";
      if (!isLoneRead) this.#db.exec("commit");
    } catch (error) {
      if (!isLoneRead) this.#rollBack();
      for (const participant of this.#participants) participant.rolledBack();
      return { stage, error };
    }
    for (const participant of this.#participants) participant.committed();
    return null;
  }

  #rollBack(): void {
    try {
      this.#db.exec("rollback");
    } catch {
      // Some errors (a full disk, an I/O error) have rolled back already, and then this one says so.
    }
  }
}

/** Who keeps something in memory that must follow the transaction. */
export interface Participant {
  /** After the changes, before the reads: hand over to SQLite what was gathered. */
  flush(): void;
  committed(): void;
  rolledBack(): void;
}

interface Call {
  readonly run: () => unknown;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
  result: unknown;
}

type Rider = () => void;

interface Failure {
  /** Whose fault it is: one of the calls, or the transaction's. */
  readonly stage: "call" | "commit";
  readonly error: unknown;
}

function settle(call: Call, failure: Failure | null): void {
  if (failure === null) call.resolve(call.result);
  else call.reject(failure.error);
}

/** Bounds how long one transaction keeps the event loop: some tens of milliseconds. */
const BATCH_MAX = 500;
const LATER_MS = 20;
