import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BusOptions } from "../../src/ports/bus.ts";
import type { Log, LogFields } from "../../src/ports/log.ts";
import { type Database, type DataDirectory, openDataDirectory } from "../../src/worlds/sqlite.ts";
import { SqliteBus } from "../../src/worlds/sqlite-bus.ts";
import { SqliteStore } from "../../src/worlds/sqlite-store.ts";
import { Writer } from "../../src/worlds/sqlite-writer.ts";
import { ManualClock } from "../contract/manual-clock.ts";

/** A data directory whose database can be watched, made to fail, and left without a word as in a crash. */
export class TestDirectory {
  readonly dir = mkdtempSync(join(tmpdir(), "cordum-worlds-"));
  readonly clock: ManualClock;
  readonly logged: { readonly event: string; readonly fields: LogFields }[] = [];
  readonly log: Log = { write: (_level, event, fields = {}) => void this.logged.push({ event, fields }) };
  /** Transactions that were committed, and errors to throw instead of the next commits. */
  commits = 0;
  commitErrors: Error[] = [];
  #opened: DataDirectory | null = null;

  constructor(clock: ManualClock = new ManualClock()) {
    this.clock = clock;
  }

  async open(options: Partial<BusOptions> = {}): Promise<Opened> {
    this.#opened = await openDataDirectory(this.dir);
    const db = this.#tapped(this.#opened.db);
    const writer = new Writer(db, this.clock, this.log);
    const store = new SqliteStore(db, writer);
    const bus = new SqliteBus(db, writer, this.clock, this.log, { ...BUS, ...options });
    return { db, writer, store, bus };
  }

  /** Whatever only memory knew is gone. */
  crash(): void {
    this.#opened?.close();
    this.#opened = null;
  }

  close(): void {
    this.crash();
    rmSync(this.dir, { recursive: true, force: true });
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

export interface Opened {
  readonly db: Database;
  readonly writer: Writer;
  readonly store: SqliteStore;
  readonly bus: SqliteBus;
}

const BUS: BusOptions = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 64 };

/** Reads one number: `select count(*) …`. */
export function numberOf(db: Database, sql: string): number {
  return Number(Object.values(db.prepare(sql).get() as Record<string, unknown>)[0]);
}
