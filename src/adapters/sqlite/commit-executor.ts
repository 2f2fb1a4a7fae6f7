import { type BatchStatement, BatchWriter, type Checkpointer, EPOCH, WriteBatch } from "./checkpoint.ts";
import { type Database, isDamage, sqliteCode } from "./database.ts";
import { DamageError, rowSum } from "./integrity/checksum.ts";
import type { Journal } from "./journal.ts";
import type { JournalStep } from "./rows.ts";

/**
 * Runs batches of calls in order, in the thread of the caller.
 *
 * 1. A batch that needs only memory and key lookups is written to the journal. Any other batch runs in one SQLite
 *    transaction that first checkpoints the whole memtable, so SQL always sees complete tables.
 * 2. The changes of a batch run first, in order, then its reads. Calls of one batch do not depend on each other's results,
 *    so this order is legal, and it allows one bulk write of all changes.
 * 3. When a call throws, the batch is rolled back and each call runs again alone. So calls must be repeatable, and the
 *    participants must undo the changes to memory.
 * 4. A batch resolves when everything before it is on disk, also if it only reads.
 * 5. After a failed journal write, batches go to the tables until a checkpoint has succeeded.
 * 6. A checkpoint runs in the checkpointer while journal batches continue. It is the only writer of the tables until it
 *    ends: a batch that needs the tables waits for it, and later batches wait behind that batch. A failed checkpoint is
 *    repeated in this thread.
 * 7. A query batch starts a checkpoint and waits for it; other batches do not wait for the query.
 */
export class CommitExecutor {
  readonly #db: Database;
  readonly #journal: Journal;
  readonly #participants: readonly Participant[];
  readonly #tables: BatchWriter;
  readonly #checkpointer: Checkpointer | null;
  /** Handed to the checkpointer and not yet in the tables. */
  #frozen: readonly BatchStatement[] | null = null;
  /** Resolves when the running checkpoint has ended, also if it failed. */
  #checkpointing: Promise<void> | null = null;
  #batchesWaiting = 0;

  constructor(
    db: Database,
    journal: Journal,
    participants: readonly Participant[],
    checkpointer: Checkpointer | null = null,
  ) {
    this.#db = db;
    this.#journal = journal;
    this.#participants = participants;
    this.#tables = new BatchWriter(db);
    this.#checkpointer = checkpointer;
  }

  /** Resolves when the batch is on disk. Results and failures are in its calls; the first failure is also returned. */
  async run(batch: Batch): Promise<BatchFailure | null> {
    while (this.#mustWait(batch)) await this.#checkpointEnded();
    let failure = this.#runBatch(batch);
    while (failure === "wait") {
      await this.#checkpointEnded();
      failure = this.#runBatch(batch);
    }
    const synced = this.#journal.sync();
    if (this.#fill >= 1) this.#startCheckpoint();
    try {
      await synced;
    } catch (error) {
      while (this.#checkpointing !== null) await this.#checkpointEnded();
      if (this.#transact(EMPTY) !== null) return failAll(batch, failureOf("commit", error));
    }
    return failure;
  }

  /** Runs a batch of reads that may wait for a checkpoint (7). */
  async query(batch: Batch): Promise<BatchFailure | null> {
    if (this.#isCheckpointWorthwhile) {
      await this.#checkpointAside();
      if (needsOnlySnapshot(batch) && this.#readSnapshot(batch)) return null;
    }
    return this.run(batch);
  }

  /** Replays the journal of an earlier process. */
  recover(entries: readonly string[]): void {
    replay(this.#participants, entries);
    this.checkpoint();
  }

  /** Checkpoints in this thread. No other checkpoint may be running. */
  checkpoint(): void {
    const failure = this.#transact(EMPTY, true);
    if (failure !== null) throw failure.error;
  }

  async close(): Promise<void> {
    while (this.#checkpointing !== null) await this.#checkpointing;
    this.checkpoint();
  }

  /** (6) */
  #mustWait(batch: Batch): boolean {
    if (this.#checkpointing === null) return false;
    return this.#batchesWaiting > 0 || this.#fill >= FILL_MAX || this.#needsTables(batch);
  }

  async #checkpointEnded(): Promise<void> {
    this.#batchesWaiting += 1;
    await this.#checkpointing;
    this.#batchesWaiting -= 1;
  }

  /** (7) A few rows are written faster in this thread. */
  get #isCheckpointWorthwhile(): boolean {
    return this.#checkpointing !== null || (this.#checkpointer !== null && this.#fill >= QUERY_FILL_MIN);
  }

  /** Resolves when the tables have everything that was committed before the call, unless the checkpoint failed. */
  async #checkpointAside(): Promise<void> {
    await this.#checkpointing; // It may have started before the last commit.
    if (this.#fill > 0) this.#startCheckpoint();
    await this.#checkpointing;
  }

  /** Reads the tables as they are. False if a checkpoint failed or a query throws: then the batch runs as any other. */
  #readSnapshot({ reads }: Batch): boolean {
    if (this.#mustCheckpoint) return false;
    try {
      for (const call of reads) call.result = call.run();
      return true;
    } catch {
      return false;
    }
  }

  #startCheckpoint(): void {
    if (this.#checkpointer === null || this.#checkpointing !== null || this.#mustCheckpoint) return;
    const epoch = this.#journal.epoch + 1;
    this.#frozen = this.#collect(epoch);
    for (const participant of this.#participants) participant.freeze();
    this.#journal.switchHalf(epoch);
    this.#checkpointing = this.#checkpointer.checkpoint(this.#frozen).then(
      () => {
        this.#checkpointing = null;
        this.#frozen = null;
        this.#journal.onCheckpoint();
        for (const participant of this.#participants) participant.dropFrozen();
      },
      () => {
        this.#checkpointing = null;
      },
    );
  }

  get #fill(): number {
    let fill = 0;
    for (const participant of this.#participants) fill = Math.max(fill, participant.fill);
    return fill;
  }

  /** "wait": the batch cannot run before the current checkpoint has ended. */
  #runBatch(batch: Batch): BatchFailure | null | "wait" {
    const failure = this.#transact(batch);
    if (failure === null) return null;
    if (failure === JOURNAL_FULL) return "wait";
    if (failure.stage === "call" && sizeOf(batch) > 1) {
      return this.#checkpointing === null ? this.#runEachAlone(batch) : "wait";
    }
    return failAll(batch, failure);
  }

  #runEachAlone({ piggybacked, changes, reads }: Batch): BatchFailure | null {
    const failures: Failure[] = [];
    const transact = (alone: Partial<Batch>): Failure | null => {
      const failure = this.#transact({ ...EMPTY, ...alone });
      if (failure !== null) failures.push(failure);
      return failure;
    };
    for (const operation of piggybacked) transact({ piggybacked: [operation] });
    for (const call of changes) call.failure = transact({ changes: [call] });
    for (const call of reads) call.failure = transact({ reads: [call] });
    const [first] = failures;
    return first === undefined ? null : { ...first, calls: failures.length };
  }

  #transact(batch: Batch, isCheckpoint = this.#needsTables(batch)): Failure | null {
    let isInTransaction = false;
    let stage: Failure["stage"] = "commit";
    const hasWrites = batch.piggybacked.length > 0 || batch.changes.length > 0;
    const begin = () => {
      this.#db.exec("begin");
      isInTransaction = true;
      if (this.#frozen !== null) this.#tables.write(this.#frozen);
    };
    try {
      if (isCheckpoint) begin();
      stage = "call";
      for (const operation of batch.piggybacked) operation.run();
      for (const call of batch.changes) call.result = call.run();
      if (isInTransaction) this.#writeMemtable(hasWrites);
      for (const call of batch.reads) call.result = call.run();
      stage = "commit";
      if (!isInTransaction && !this.#appendToJournal()) {
        if (this.#checkpointing !== null) {
          this.#rollBackMemory();
          return JOURNAL_FULL;
        }
        begin();
        this.#writeMemtable(hasWrites);
      }
      if (isInTransaction) this.#db.exec("commit");
      for (const participant of this.#participants) participant.onCommit();
      if (isInTransaction) this.#checkpointDone(hasWrites);
      return null;
    } catch (error) {
      if (isInTransaction) this.#rollBack();
      this.#rollBackMemory();
      return failureOf(stage, error);
    }
  }

  #needsTables({ piggybacked, changes, reads }: Batch): boolean {
    if (this.#mustCheckpoint || (this.#checkpointer === null && this.#fill >= 1)) return true;
    for (const { needs } of piggybacked) if (needs !== "memory") return true;
    for (const { needs } of changes) if (needs !== "memory") return true;
    for (const { needs } of reads) if (needs !== "memory") return true;
    return false;
  }

  /** A journal write or a checkpoint failed (5, 6). */
  get #mustCheckpoint(): boolean {
    return this.#journal.isBroken || (this.#frozen !== null && this.#checkpointing === null);
  }

  /** False when the journal has no room. */
  #appendToJournal(): boolean {
    const pieces: string[] = [];
    for (const participant of this.#participants) participant.encodeChanges(pieces);
    if (pieces.length === 0) return true;
    pieces[0] = `[${pieces[0]!.slice(1)}`; // Replaces the first comma.
    pieces.push("]");
    return this.#journal.append(pieces);
  }

  /** Every transaction that writes stores another epoch, so the manifest can tell whether the tables have it. */
  #writeMemtable(hasWrites: boolean): void {
    this.#tables.write(this.#collect(this.#journal.isUsed || hasWrites ? this.#journal.epoch + 1 : null));
  }

  #collect(epoch: number | null): readonly BatchStatement[] {
    const batch = new WriteBatch();
    for (const participant of this.#participants) participant.collect(batch);
    const { directory } = this.#journal;
    if (epoch !== null) batch.add(EPOCH, epoch, directory, rowSum(epoch, directory));
    return batch.statements();
  }

  /** The tables have everything: empties the memtable and the journal. */
  #checkpointDone(hasWrites: boolean): void {
    this.#frozen = null;
    for (const participant of this.#participants) {
      participant.dropFrozen();
      participant.freeze();
      participant.dropFrozen();
    }
    if (this.#journal.isUsed || hasWrites) this.#journal.reset(this.#journal.epoch + 1);
  }

  #rollBackMemory(): void {
    for (const participant of this.#participants) participant.onRollback();
  }

  #rollBack(): void {
    try {
      this.#db.exec("rollback");
    } catch {
      // Some errors (disk full, I/O error) roll back by themselves.
    }
  }
}

/**
 * In-memory state that takes part in every batch: it is journaled with it, rolled back with it, and written to the tables
 * by a checkpoint.
 */
export interface Participant {
  /** Share of the capacity that is used. A checkpoint starts at 1. */
  readonly fill: number;
  /** Appends the changes of the current batch to a journal entry: a comma and a step for each. */
  encodeChanges(pieces: string[]): void;
  /** Applies a step of the journal. Ignores the steps of other participants. */
  replay(step: JournalStep): void;
  /** Adds all rows that the tables do not have, including those of the current batch. */
  collect(batch: WriteBatch): void;
  /** A checkpoint of the collected rows has started: they stay readable and no longer change. */
  freeze(): void;
  /** The frozen rows are in the tables. */
  dropFrozen(): void;
  onCommit(): void;
  onRollback(): void;
}

/** Applies journal entries to memory. */
export function replay(participants: readonly Participant[], entries: readonly string[]): void {
  for (const entry of entries) {
    for (const step of JSON.parse(entry) as readonly JournalStep[]) {
      for (const participant of participants) participant.replay(step);
    }
  }
}

/**
 * What an operation reads and writes besides the memtable.
 * - `memory`: at most key lookups, and reads of tables that the journal does not cover (messages, blobs).
 * - `tables`: needs a transaction on complete tables.
 * - `snapshot`: a read of complete tables that may miss commits made after the call.
 */
export type Needs = "memory" | "tables" | "snapshot";

export interface Operation {
  /** May run more than once (3). */
  readonly run: () => unknown;
  readonly needs: Needs;
}

/** An operation whose outcome is awaited. */
export interface Call extends Operation {
  result: unknown;
  failure: Failure | null;
}

export interface Batch {
  readonly piggybacked: readonly Operation[];
  readonly changes: readonly Call[];
  readonly reads: readonly Call[];
}

export interface Failure {
  /** "call": the call itself threw. "commit": the transaction or the journal write failed. */
  readonly stage: "call" | "commit";
  /** The disk or the machine is at fault, not the call: a retry may succeed. */
  readonly isPassing: boolean;
  readonly error: Error;
}

export interface BatchFailure extends Failure {
  /** Number of calls that failed. */
  readonly calls: number;
}

function needsOnlySnapshot({ piggybacked, reads }: Batch): boolean {
  return piggybacked.length === 0 && reads.every(({ needs }) => needs === "snapshot");
}

const sizeOf = ({ piggybacked, changes, reads }: Batch): number => piggybacked.length + changes.length + reads.length;

function failAll(batch: Batch, failure: Failure): BatchFailure {
  for (const call of batch.changes) call.failure = failure;
  for (const call of batch.reads) call.failure = failure;
  return { ...failure, calls: sizeOf(batch) };
}

function failureOf(stage: Failure["stage"], cause: unknown): Failure {
  const error = cause instanceof Error ? cause : new Error(String(cause));
  if (isDamage(cause)) return { stage, isPassing: false, error: new DamageError(`cordum.db: ${error.message}`, cause) };
  return { stage, isPassing: stage === "commit" || PASSING_CODES.has(sqliteCode(cause)), error };
}

/** SQLite result codes: busy, locked, no memory, read only, I/O error, full, cannot open. */
const PASSING_CODES: ReadonlySet<number> = new Set([5, 6, 7, 8, 10, 13, 14]);

/** Fill of the memtable behind a running checkpoint at which batches wait for it. */
const FILL_MAX = 4;
/** Fill of the memtable from which a query waits for a checkpoint. */
const QUERY_FILL_MIN = 1 / 48;

const JOURNAL_FULL: Failure = { stage: "commit", isPassing: true, error: new Error("the journal is full") };
const EMPTY: Batch = { piggybacked: [], changes: [], reads: [] };
