import { type Answers, type Batch, type Call, type Failure, failed, failureOf, sizeOf } from "./batch.ts";
import type { Database } from "./database.ts";
import type { Journal } from "./journal.ts";
import { type Handlers, IN_MEMORY, isLenient, isQuestion } from "./operations.ts";
import { type Participant, recoverAll } from "./participant.ts";
import { type BatchStatement, BatchWriter, EPOCH, WriteBatch } from "./write-batch.ts";

/**
 * Where batches of calls are carried out, in order.
 *
 * 1. A batch that needs only memory and lookups by key goes into the journal: one write, and none of the tables is touched.
 *    Any other batch goes into the tables, in one transaction with everything that only the journal has: so whoever reads
 *    tables sees all of it, and a record that changed five times meanwhile is written once.
 * 2. First the changes run, in the order in which they came, then the reads. None of them awaited another, so any order
 *    is a fair one, and this one lets the changes be written in bulk.
 * 3. A call that throws takes nobody with it: the batch is undone and each call runs again alone. So calls must be
 *    repeatable; what they change in memory is undone by their participant.
 * 4. Answers are given when all that was done before is on disk. A transaction that only reads writes nothing.
 * 5. A journal that fails is replaced by the tables until they have taken in everything.
 * 6. Where there is a folder, what has gathered is handed to it while batches go on. Who needs the tables meanwhile waits, and
 *    those behind with him: nobody else writes into the tables before the folder has. What it could not do is done here.
 * 7. Who comes with nothing but questions lets the folder have a turn first, and the others go on. Then little is left to be
 *    written here, and nothing at all for questions that need no more than what was there when they were asked.
 */
export class CommitExecutor {
  readonly #db: Database;
  readonly #journal: Journal;
  readonly #handlers: Handlers;
  readonly #participants: readonly Participant[];
  readonly #tables: BatchWriter;
  readonly #folder: Checkpointer | null;
  /** What the folder was handed, until the tables have it. */
  #aside: readonly BatchStatement[] | null = null;
  /** Resolves when the folder has done it, or has not. */
  #folding: Promise<void> | null = null;
  /** Batches that wait for that. */
  #line = 0;

  constructor(
    db: Database,
    journal: Journal,
    { handlers, participants }: StoreOperations,
    folder: Checkpointer | null = null,
  ) {
    this.#db = db;
    this.#journal = journal;
    this.#handlers = handlers;
    this.#participants = participants;
    this.#tables = new BatchWriter(db);
    this.#folder = folder;
  }

  async run(batch: Batch): Promise<Answers> {
    if (this.#isWorthATurn && isQuestion(batch)) {
      await this.#foldBeside();
      const answers = isLenient(batch) ? this.#askTables(batch) : null;
      if (answers !== null) return answers;
    }
    while (this.#mustWait(batch)) await this.#folded();
    let answers = this.#runAll(batch);
    while (answers === "wait") {
      await this.#folded();
      answers = this.#runAll(batch);
    }
    const safe = this.#journal.safe();
    if (this.#fill >= 1) this.#foldAside();
    try {
      await safe;
    } catch (error) {
      while (this.#folding !== null) await this.#folded();
      const { failure } = this.#transact(NOTHING);
      if (failure !== null) return failed(batch, failureOf("commit", error));
    }
    return answers;
  }

  /** Takes in what an earlier boot left in the journal. */
  recover(entries: readonly string[]): void {
    recoverAll(this.#participants, entries);
    this.checkpoint();
  }

  /** Puts everything into the tables and starts the journal again. The folder must be at rest. */
  checkpoint(): void {
    const { failure } = this.#transact(NOTHING, true);
    if (failure !== null) throw new Error(failure.text);
  }

  /** The same, whatever is under way. */
  async close(): Promise<void> {
    while (this.#folding !== null) await this.#folding;
    this.checkpoint();
  }

  /** (6) */
  #mustWait(batch: Batch): boolean {
    if (this.#folding === null) return false;
    return this.#line > 0 || this.#fill >= FILL_MAX || this.#needsTables(batch);
  }

  async #folded(): Promise<void> {
    this.#line += 1;
    await this.#folding;
    this.#line -= 1;
  }

  /** (7) Starting a thread for a handful of rows is not. */
  get #isWorthATurn(): boolean {
    return this.#folding !== null || (this.#folder !== null && this.#fill >= TURN_MIN);
  }

  /** Resolves when the tables have what was there when it was called, unless the folder failed. */
  async #foldBeside(): Promise<void> {
    await this.#folding; // It began before.
    if (this.#fill > 0) this.#foldAside();
    await this.#folding;
  }

  /** What the tables say as they are. Null when they have not what they should have, or a question fails. */
  #askTables({ reads }: Batch): Answers | null {
    if (this.#mustFold) return null;
    try {
      return { results: reads.map((call) => this.#call(call)), failures: null, trouble: null };
    } catch {
      return null;
    }
  }

  #foldAside(): void {
    if (this.#folder === null || this.#folding !== null || this.#mustFold) return;
    const epoch = this.#journal.epoch + 1;
    this.#aside = this.#handOver(epoch);
    for (const participant of this.#participants) participant.setAside();
    this.#journal.begin(epoch);
    this.#folding = this.#folder.checkpoint(this.#aside).then(
      () => {
        this.#folding = null;
        this.#aside = null;
        for (const participant of this.#participants) participant.folded();
      },
      () => {
        this.#folding = null;
      },
    );
  }

  get #fill(): number {
    let fill = 0;
    for (const participant of this.#participants) fill = Math.max(fill, participant.fill);
    return fill;
  }

  /** "wait" when there is no room for it before the folder has done its work. */
  #runAll(batch: Batch): Answers | "wait" {
    const { results, failure } = this.#transact(batch);
    if (failure === null) return { results, failures: null, trouble: null };
    if (failure === NO_ROOM) return "wait";
    if (failure.stage === "call" && sizeOf(batch) > 1) return this.#folding === null ? this.#runAlone(batch) : "wait";
    return failed(batch, failure);
  }

  #runAlone({ piggybacked, changes, reads }: Batch): Answers {
    const results: unknown[] = [];
    const failures: (Failure | null)[] = [];
    const troubles: Failure[] = [];
    const transact = (alone: Partial<Batch>) => {
      const { results, failure } = this.#transact({ ...NOTHING, ...alone });
      if (failure !== null) troubles.push(failure);
      return { result: results[0], failure };
    };
    const answer = ({ result, failure }: ReturnType<typeof transact>) => {
      results.push(result);
      failures.push(failure);
    };
    for (const call of piggybacked) transact({ piggybacked: [call] });
    for (const call of changes) answer(transact({ changes: [call] }));
    for (const call of reads) answer(transact({ reads: [call] }));
    const [first] = troubles;
    return { results, failures, trouble: first ? { ...first, calls: troubles.length } : null };
  }

  #transact(batch: Batch, isFold = this.#needsTables(batch)): Transacted {
    let isInTables = false;
    let stage: Failure["stage"] = "commit";
    const begin = () => {
      this.#db.exec("begin");
      isInTables = true;
      if (this.#aside !== null) this.#tables.write(this.#aside);
    };
    try {
      if (isFold) begin();
      stage = "call";
      for (const call of batch.piggybacked) this.#call(call);
      const results = batch.changes.map((call) => this.#call(call));
      if (isInTables) this.#flush();
      for (const call of batch.reads) results.push(this.#call(call));
      stage = "commit";
      if (!isInTables && !this.#keepInJournal()) {
        if (this.#folding !== null) {
          this.#undo();
          return { results: [], failure: NO_ROOM };
        }
        begin();
        this.#flush();
      }
      if (isInTables) this.#db.exec("commit");
      for (const participant of this.#participants) participant.kept();
      if (isInTables) this.#restart();
      return { results, failure: null };
    } catch (error) {
      if (isInTables) this.#rollBack();
      this.#undo();
      return { results: [], failure: failureOf(stage, error) };
    }
  }

  #needsTables({ piggybacked, changes, reads }: Batch): boolean {
    if (this.#mustFold || (this.#folder === null && this.#fill >= 1)) return true;
    const needsTables = ([name]: Call) => !IN_MEMORY.has(name);
    return piggybacked.some(needsTables) || changes.some(needsTables) || reads.some(needsTables);
  }

  /** Something has failed, and the tables make up for it. */
  get #mustFold(): boolean {
    return this.#journal.isBroken || (this.#aside !== null && this.#folding === null);
  }

  /** False when it does not fit. */
  #keepInJournal(): boolean {
    const pieces: string[] = [];
    for (const participant of this.#participants) participant.tell(pieces);
    if (pieces.length === 0) return true;
    pieces[0] = `[${pieces[0]!.slice(1)}`; // In place of the first comma.
    pieces.push("]");
    return this.#journal.append(pieces);
  }

  #flush(): void {
    this.#tables.write(this.#handOver(this.#journal.isUsed ? this.#journal.epoch + 1 : null));
  }

  #handOver(epoch: number | null): readonly BatchStatement[] {
    const batch = new WriteBatch();
    for (const participant of this.#participants) participant.handOver(batch);
    if (epoch !== null) batch.add(EPOCH, epoch);
    return batch.statements();
  }

  /** The tables have everything. */
  #restart(): void {
    this.#aside = null;
    for (const participant of this.#participants) {
      participant.folded();
      participant.setAside();
      participant.folded();
    }
    if (this.#journal.isUsed) this.#journal.restart(this.#journal.epoch + 1);
  }

  #undo(): void {
    for (const participant of this.#participants) participant.undone();
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

/** Who answers the calls, and who has to know how their batch ended. */
export interface StoreOperations {
  readonly handlers: Handlers;
  readonly participants: readonly Participant[];
}

/** Writes into the tables beside the scribe, in one transaction, durably. Rejects when nothing was written. */
export interface Checkpointer {
  checkpoint(passages: readonly BatchStatement[]): Promise<void>;
  close(): Promise<void>;
}

interface Transacted {
  readonly results: unknown[];
  readonly failure: Failure | null;
}

/** How full those who wait for the folder may get, until batches wait too. */
const FILL_MAX = 4;
/** How full they must be for a question to wait for the folder. */
const TURN_MIN = 1 / 24;

const NO_ROOM: Failure = { stage: "commit", isPassing: true, text: "no room in the journal" };
const NOTHING: Batch = { piggybacked: [], changes: [], reads: [] };
