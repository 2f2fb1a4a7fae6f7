import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SqliteBus } from "../../../src/adapters/sqlite/bus/bus.ts";
import type { Checkpointer } from "../../../src/adapters/sqlite/checkpoint.ts";
import { type Batch, type BatchFailure, CommitExecutor } from "../../../src/adapters/sqlite/commit-executor.ts";
import {
  type Database,
  type DataDirectory,
  JOURNAL_FILE,
  openDataDirectory,
} from "../../../src/adapters/sqlite/database.ts";
import { GroupCommit } from "../../../src/adapters/sqlite/group-commit.ts";
import { durableWriter, Journal } from "../../../src/adapters/sqlite/journal.ts";
import { Tables } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import type { BusOptions } from "../../../src/ports/bus.ts";
import type { Log, LogFields } from "../../../src/ports/log.ts";
import { ManualClock } from "../../contract/manual-clock.ts";

const writeDurably = durableWriter();

/** A data directory with counted commits, injected disk errors and crashes. */
export class TestDirectory {
  readonly dir = mkdtempSync(join(tmpdir(), "cordum-sqlite-"));
  readonly clock: ManualClock;
  readonly logged: { readonly event: string; readonly fields: LogFields }[] = [];
  readonly log: Log = { write: (_level, event, fields = {}) => void this.logged.push({ event, fields }) };
  /** Committed SQLite transactions, and errors that the next ones throw. */
  commits = 0;
  commitErrors: Error[] = [];
  /** Writes of the journal, and errors that the next ones throw. */
  writes = 0;
  writeErrors: Error[] = [];
  /** Batches settle after it. */
  settlementHeld: Promise<void> | null = null;
  #opened: DataDirectory | null = null;
  #journal: Journal | null = null;

  constructor(clock: ManualClock = new ManualClock()) {
    this.clock = clock;
  }

  async open(options: Partial<BusOptions> = {}, checkpoints: Checkpoints = {}): Promise<Opened> {
    this.#opened = await openDataDirectory(this.dir);
    const db = this.#tapped(this.#opened.db);
    const tables = new Tables(db, checkpoints.memtableRowsMax);
    const journal = this.#tappedJournal(this.#opened);
    const executor = new CommitExecutor(db, journal, tables.participants, checkpoints.checkpointer);
    executor.recover(this.#opened.journalEntries);
    const held = async (settled: Promise<BatchFailure | null>) => {
      const failure = await settled;
      await this.settlementHeld;
      return failure;
    };
    const run = (batch: Batch) => held(executor.run(batch));
    const query = (batch: Batch) => held(executor.query(batch));
    const writer = new GroupCommit({ run, query, close: () => executor.close() }, this.clock, this.log);
    const store = new SqliteStore(writer, tables);
    const bus = await SqliteBus.open(writer, tables.messages, this.clock, this.log, { ...BUS, ...options });
    this.commits = 0;
    this.writes = 0;
    return { db, tables, writer, store, bus, checkpoint: () => executor.checkpoint() };
  }

  /** Drops everything that is only in memory. */
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

  #tappedJournal({ journal: { epoch }, manifest }: DataDirectory): Journal {
    this.#journal = new Journal(join(this.dir, JOURNAL_FILE), epoch, manifest, async (...write) => {
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

export interface Checkpoints {
  readonly checkpointer?: Checkpointer;
  readonly memtableRowsMax?: number;
}

export interface Opened {
  readonly db: Database;
  readonly tables: Tables;
  /** Checkpoints synchronously. */
  readonly checkpoint: () => void;
  readonly writer: GroupCommit;
  readonly store: SqliteStore;
  readonly bus: SqliteBus;
}

const BUS: BusOptions = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 64 };

/** Reads one number: `select count(*) …`. */
export function numberOf(db: Database, sql: string): number {
  return Number(Object.values(db.prepare(sql).get() as Record<string, unknown>)[0]);
}
