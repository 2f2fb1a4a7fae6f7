import type { Database } from "./sqlite.ts";
import type { Handlers } from "./sqlite-duties.ts";

/**
 * Where batches of calls are carried out, in order. Those that have arrived by then share one transaction.
 *
 * 1. First the changes run, in the order in which they came, then the reads. None of them awaited another, so any order
 *    is a fair one, and this one lets the changes be written in bulk.
 * 2. A call that throws takes nobody with it: the transaction is rolled back and each call runs again alone. So calls
 *    must be repeatable; what they change in memory is undone by their participant's `rolledBack`.
 * 3. A transaction that only reads writes nothing and does not wait for the disk.
 */
export class Scribe {
  readonly #db: Database;
  readonly #handlers: Handlers;
  readonly #participants: readonly Participant[];

  constructor(db: Database, { handlers, participants }: Duties) {
    this.#db = db;
    this.#handlers = handlers;
    this.#participants = participants;
  }

  /** `next` gives the batches that have arrived, one by one, and null when there are no more. */
  run(first: Batch, next: () => Batch | null): Answers[] {
    const batches = [first];
    let calls = sizeOf(first);
    while (calls < CALLS_MAX) {
      const batch = next();
      if (batch === null) break;
      batches.push(batch);
      calls += sizeOf(batch);
    }
    const { results, failure } = this.#transact(batches);
    if (failure === null) return results.map((each) => ({ results: each, failures: null, trouble: null }));
    if (failure.stage === "call" && calls > 1) return batches.map((batch) => this.#runAlone(batch));
    return batches.map((batch) => failed(batch, failure));
  }

  #runAlone({ riders, changes, reads }: Batch): Answers {
    const results: unknown[] = [];
    const failures: (Failure | null)[] = [];
    const troubles: Failure[] = [];
    const transact = (alone: Partial<Batch>) => {
      const { results, failure } = this.#transact([{ ...NOTHING, ...alone }]);
      if (failure !== null) troubles.push(failure);
      return { result: results[0]?.[0], failure };
    };
    const answer = ({ result, failure }: ReturnType<typeof transact>) => {
      results.push(result);
      failures.push(failure);
    };
    for (const call of riders) transact({ riders: [call] });
    for (const call of changes) answer(transact({ changes: [call] }));
    for (const call of reads) answer(transact({ reads: [call] }));
    const [first] = troubles;
    return { results, failures, trouble: first ? { ...first, calls: troubles.length } : null };
  }

  /** Runs everything in one transaction. A lone read needs none. */
  #transact(batches: readonly Batch[]): { readonly results: unknown[][]; readonly failure: Failure | null } {
    const isLoneRead = batches.length === 1 && sizeOf(batches[0]!) === 1 && batches[0]!.reads.length === 1;
    const results: unknown[][] = batches.map(() => []);
    let stage: Failure["stage"] = "commit";
    try {
      if (!isLoneRead) this.#db.exec("begin");
      stage = "call";
      for (const { riders } of batches) for (const call of riders) this.#call(call);
      for (const [at, { changes }] of batches.entries()) {
        for (const call of changes) results[at]!.push(this.#call(call));
      }
      for (const participant of this.#participants) participant.flush();
      for (const [at, { reads }] of batches.entries()) {
        for (const call of reads) results[at]!.push(this.#call(call));
      }
      stage = "commit";
      if (!isLoneRead) this.#db.exec("commit");
    } catch (error) {
      if (!isLoneRead) this.#rollBack();
      for (const participant of this.#participants) participant.rolledBack();
      return { results: [], failure: failureOf(stage, error) };
    }
    for (const participant of this.#participants) participant.committed();
    return { results, failure: null };
  }

  #call([name, ...args]: Call): unknown {
    return (this.#handlers[name] as (...args: unknown[]) => unknown)(...args);
  }

  #rollBack(): void {
    try {
      this.#db.exec("rollback");
    } catch {
      // Some errors (a full disk, an I/O error) have rolled back already, and then this one says so.
    }
  }
}

/** Who answers the calls, and who has to know how their transaction ended. */
export interface Duties {
  readonly handlers: Handlers;
  readonly participants: readonly Participant[];
}

/** Who keeps something in memory that must follow the transaction. */
export interface Participant {
  /** After the changes, before the reads: hand over to SQLite what was gathered. */
  flush(): void;
  committed(): void;
  rolledBack(): void;
}

export type Call = readonly [name: keyof Handlers, ...args: unknown[]];

export interface Batch {
  /** Nobody waits for the answers of these. */
  readonly riders: readonly Call[];
  readonly changes: readonly Call[];
  readonly reads: readonly Call[];
}

export interface Answers {
  /** Those of the changes, then those of the reads. */
  readonly results: readonly unknown[];
  /** In the same order; null when all is well. */
  readonly failures: readonly (Failure | null)[] | null;
  readonly trouble: (Failure & { readonly calls: number }) | null;
}

export interface Failure {
  /** Whose fault it is: one of the calls, or the transaction's. */
  readonly stage: "call" | "commit";
  /** The disk is at fault, not what was asked: it makes sense to try again. */
  readonly isPassing: boolean;
  readonly text: string;
}

const NOTHING: Batch = { riders: [], changes: [], reads: [] };
/** Bounds how long one transaction takes: some tens of milliseconds. */
const CALLS_MAX = 500;

function sizeOf({ riders, changes, reads }: Batch): number {
  return riders.length + changes.length + reads.length;
}

function failed(batch: Batch, failure: Failure): Answers {
  const failures = Array<Failure>(batch.changes.length + batch.reads.length).fill(failure);
  return { results: [], failures, trouble: { ...failure, calls: sizeOf(batch) } };
}

function failureOf(stage: Failure["stage"], error: unknown): Failure {
  const { errcode, sqliteCode } = error as { errcode?: number; sqliteCode?: number };
  const isPassing = stage === "commit" || PASSING.has((errcode ?? sqliteCode ?? 0) & 0xff);
  return { stage, isPassing, text: error instanceof Error ? error.message : String(error) };
}

/** SQLite's codes for a state of the machine: busy, locked, no memory, read only, I/O, corrupt, full, cannot open. */
const PASSING: ReadonlySet<number> = new Set([5, 6, 7, 8, 10, 11, 13, 14]);
