import { join } from "node:path";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import { BlobRows } from "./blobs.ts";
import { MessageRows } from "./bus/message-rows.ts";
import { CheckpointThread } from "./checkpoint.ts";
import { Claims } from "./claims.ts";
import { CommitExecutor, type Participant } from "./commit-executor.ts";
import { Counters } from "./counters.ts";
import { DATA_FILE, type Database, openDataDirectory, PRAGMAS } from "./database.ts";
import { GroupCommit } from "./group-commit.ts";
import { Memtable } from "./memtable.ts";
import { Queries } from "./queries.ts";
import { SequenceRows } from "./sequence.ts";
import type { StoreTables } from "./store.ts";

/** An open data directory. Closing `writer` closes the directory. */
export interface Storage {
  readonly writer: GroupCommit;
  readonly tables: Tables;
}

export interface StorageOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Rows in the memtable at which a checkpoint starts. */
  readonly memtableRowsMax?: number | undefined;
}

/** Locks the directory, replays its journal and starts group commit. */
export async function openStorage(dir: string, options: StorageOptions): Promise<Storage> {
  const directory = await openDataDirectory(dir);
  const checkpointer = new CheckpointThread(join(dir, DATA_FILE), PRAGMAS);
  try {
    const tables = new Tables(directory.db, options.memtableRowsMax);
    const executor = new CommitExecutor(directory.db, directory.journal, tables.participants, checkpointer);
    executor.recover(directory.journalEntries);
    const close = async () => {
      try {
        await executor.close();
      } finally {
        await checkpointer.close();
        await directory.close();
      }
    };
    const { clock, log } = options;
    const writer = new GroupCommit(
      { run: (batch) => executor.run(batch), query: (batch) => executor.query(batch), close },
      clock,
      log,
    );
    return { writer, tables };
  } catch (error) {
    await directory.close();
    throw error;
  }
}

/** Everything that operations of group commit read and write. */
export class Tables implements StoreTables {
  readonly counters: Counters;
  readonly claims: Claims;
  readonly memtable: Memtable;
  readonly queries: Queries;
  readonly messages: MessageRows;
  readonly blobs: BlobRows;
  readonly sequences: SequenceRows;
  readonly participants: readonly Participant[];

  constructor(db: Database, memtableRowsMax = MEMTABLE_ROWS_MAX) {
    this.counters = new Counters(db);
    this.claims = new Claims();
    this.memtable = new Memtable(db, this.counters, this.claims, memtableRowsMax);
    this.queries = new Queries(db, this.claims, this.memtable);
    this.messages = new MessageRows(db);
    this.blobs = new BlobRows(db);
    this.sequences = new SequenceRows(db);
    this.participants = [this.memtable, this.counters, this.claims];
  }
}

/** Bounds the duration of a checkpoint to some ten milliseconds. */
const MEMTABLE_ROWS_MAX = 600;
