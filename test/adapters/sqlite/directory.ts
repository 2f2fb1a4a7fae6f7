import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Batch } from "../../../src/adapters/sqlite/batch.ts";
import { SqliteBus } from "../../../src/adapters/sqlite/bus/bus.ts";
import {
  type Checkpointer,
  CommitExecutor,
  type StoreOperations,
} from "../../../src/adapters/sqlite/commit-executor.ts";
import {
  type Database,
  type DataDirectory,
  JOURNAL_FILE,
  openDataDirectory,
} from "../../../src/adapters/sqlite/database.ts";
import { durableWriter, Journal } from "../../../src/adapters/sqlite/journal.ts";
import { openHere } from "../../../src/adapters/sqlite/link.ts";
import { storeOperations } from "../../../src/adapters/sqlite/operations.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { type Link, Writer } from "../../../src/adapters/sqlite/writer.ts";
import type { BusOptions } from "../../../src/ports/bus.ts";
import type { Log, LogFields } from "../../../src/ports/log.ts";
import { ManualClock } from "../../contract/manual-clock.ts";

const writeDurably = durableWriter();

/** A data directory whose database can be watched, made to fail, and left without a word as in a crash. */
export class TestDirectory {
  readonly dir = mkdtempSync(join(tmpdir(), "cordum-worlds-"));
  readonly clock: ManualClock;
  readonly logged: { readonly event: string; readonly fields: LogFields }[] = [];
  readonly log: Log = { write: (_level, event, fields = {}) => void this.logged.push({ event, fields }) };
  /** Transactions that were committed, and errors to throw instead of the next commits. */
  commits = 0;
  commitErrors: Error[] = [];
  /** The same for writes of the journal. */
  writes = 0;
  writeErrors: Error[] = [];
  /** Answers wait for it. */
  answersHeld: Promise<void> | null = null;
  #opened: DataDirectory | null = null;
  #journal: Journal | null = null;

  constructor(clock: ManualClock = new ManualClock()) {
    this.clock = clock;
  }

  async open(options: Partial<BusOptions> = {}, folding: Folding = {}): Promise<Opened> {
    this.#opened = await openDataDirectory(this.dir);
    const db = this.#tapped(this.#opened.db);
    const operations = storeOperations(db, folding.unfoldedMax);
    const executor = new CommitExecutor(db, this.#tappedJournal(this.#opened.journal), operations, folding.folder);
    executor.recover(this.#opened.left);
    const run = async (batch: Batch) => {
      const answers = await executor.run(batch);
      await this.answersHeld;
      return answers;
    };
    const writer = new Writer({ run: copying(run), close: () => executor.close() }, this.clock, this.log);
    const store = new SqliteStore(writer);
    const bus = await SqliteBus.open(writer, this.clock, this.log, { ...BUS, ...options });
    this.commits = 0;
    this.writes = 0;
    return { db, operations, writer, store, bus, fold: () => executor.checkpoint() };
  }

  /** Whatever only memory knew is gone. */
  async crash(): Promise<void> {
    await this.#journal?.close();
    await this.#opened?.close();
    this.#journal = null;
    this.#opened = null;
  }

  async close(): Promise<void> {
    await this.crash();
    rmSync(this.dir, { recursive: true, force: true });
  }

  #tappedJournal({ epoch }: Journal): Journal {
    this.#journal = new Journal(join(this.dir, JOURNAL_FILE), epoch, async (...write) => {
      const error = this.writeErrors.shift();
      if (error) throw error;
      await writeDurably(...write);
      this.writes += 1;
    });
    return this.#journal;
  }

  #tapped(db: Database): Database {
    return {
      prepare: (sql) => db.prepare(sql),
      close: () => db.close(),
      exec: (sql) => {
        const error = sql === "commit" ? this.commitErrors.shift() : undefined;
        if (error) throw error;
        db.exec(sql);
        if (sql === "commit") this.commits += 1;
      },
    };
  }
}

/** A data directory behind a link that only copies get through, as between threads: nothing can lean on a shared object. */
export async function openLocally(dir: string, unfoldedMax?: number): Promise<Link> {
  const { run, close } = await openHere(dir, unfoldedMax);
  return { run: copying(run), close };
}

const copying =
  (run: Link["run"]): Link["run"] =>
  async (batch) =>
    structuredClone(await run(structuredClone(batch)));

export interface Folding {
  readonly folder?: Checkpointer;
  readonly unfoldedMax?: number;
}

export interface Opened {
  readonly db: Database;
  readonly operations: StoreOperations;
  /** Puts everything into the tables. */
  readonly fold: () => void;
  readonly writer: Writer;
  readonly store: SqliteStore;
  readonly bus: SqliteBus;
}

const BUS: BusOptions = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 64 };

/** Reads one number: `select count(*) …`. */
export function numberOf(db: Database, sql: string): number {
  return Number(Object.values(db.prepare(sql).get() as Record<string, unknown>)[0]);
}
