import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BusOptions } from "../../src/ports/bus.ts";
import type { Log, LogFields } from "../../src/ports/log.ts";
import { type Database, type DataDirectory, openDataDirectory } from "../../src/worlds/sqlite.ts";
import { SqliteBus } from "../../src/worlds/sqlite-bus.ts";
import { dutiesOf } from "../../src/worlds/sqlite-duties.ts";
import { type Answers, type Batch, type Duties, Scribe } from "../../src/worlds/sqlite-scribe.ts";
import { SqliteStore } from "../../src/worlds/sqlite-store.ts";
import { type Link, Writer } from "../../src/worlds/sqlite-writer.ts";
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
    const duties = dutiesOf(db);
    const writer = new Writer(localLink(db, duties), this.clock, this.log);
    const store = new SqliteStore(writer);
    const bus = await SqliteBus.open(writer, this.clock, this.log, { ...BUS, ...options });
    this.commits = 0;
    return { db, duties, writer, store, bus };
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

/** A data directory behind a link that only copies get through, as between threads: nothing can lean on a shared object. */
export async function openLocally(dir: string): Promise<Link> {
  const directory = await openDataDirectory(dir);
  return { ...localLink(directory.db, dutiesOf(directory.db)), close: async () => directory.close() };
}

/** Only copies get through, and what has arrived runs together. */
export function localLink(db: Database, duties: Duties): Link {
  const scribe = new Scribe(db, duties);
  let arrived: { readonly batch: Batch; readonly answer: (answers: Answers) => void }[] = [];
  const serve = () => {
    while (arrived.length > 0) {
      const waiting = arrived;
      let taken = 0;
      const next = () => waiting[taken++]?.batch ?? null;
      const all = structuredClone(scribe.run(next()!, next));
      arrived = waiting.slice(all.length);
      for (const [at, answers] of all.entries()) waiting[at]!.answer(answers);
    }
  };
  const run = (batch: Batch) =>
    new Promise<Answers>((answer) => {
      if (arrived.length === 0) setImmediate(serve);
      arrived.push({ batch: structuredClone(batch), answer });
    });
  return { run, close: async () => {} };
}

export interface Opened {
  readonly db: Database;
  readonly duties: Duties;
  readonly writer: Writer;
  readonly store: SqliteStore;
  readonly bus: SqliteBus;
}

const BUS: BusOptions = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 64 };

/** Reads one number: `select count(*) …`. */
export function numberOf(db: Database, sql: string): number {
  return Number(Object.values(db.prepare(sql).get() as Record<string, unknown>)[0]);
}
