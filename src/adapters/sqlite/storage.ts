import { statSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../ports/clock.ts";
import type { Log } from "../../ports/log.ts";
import { BlobRows } from "./blobs.ts";
import { MessageRows } from "./bus/message-rows.ts";
import { CheckpointThread } from "./checkpoint.ts";
import { Claims } from "./claims.ts";
import { CommitExecutor, type Participant } from "./commit-executor.ts";
import { Counters } from "./counters.ts";
import { DATA_FILE, type Database, damageOf, openDataDirectory, PRAGMAS } from "./database.ts";
import { DirectoryFailure, GroupCommit } from "./group-commit.ts";
import { DamageError } from "./integrity/checksum.ts";
import { checkPagesInThread, verifyTables } from "./integrity/verify.ts";
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
  /** Size up to which the database is checked completely at the start. */
  readonly startCheckBytesMax?: number | undefined;
}

/**
 * Locks the directory, replays its journal and starts group commit. A small database is checked completely before; in a large one
 * a thread checks the pages and indexes meanwhile, and rows are checked when they are read.
 */
export async function openStorage(dir: string, options: StorageOptions): Promise<Storage> {
  const directory = await openDataDirectory(dir);
  const file = join(dir, DATA_FILE);
  const checkpointer = new CheckpointThread(file, PRAGMAS);
  try {
    const isSmall = statSync(file).size <= (options.startCheckBytesMax ?? START_CHECK_BYTES_MAX);
    const [problem] = isSmall ? verifyTables(directory.db) : [];
    if (problem !== undefined) throw new DamageError(`\`${dir}\`: ${problem}`);
    const tables = new Tables(directory.db, options.memtableRowsMax);
    const executor = new CommitExecutor(directory.db, directory.journal, tables.participants, checkpointer);
    executor.recover(directory.journalEntries);
    const close = async () => {
      try {
        await executor.close();
      } catch (error) {
        throw new DirectoryFailure(
          `data directory \`${dir}\` could not be closed cleanly: ${(error as Error).message}; ` +
            "acknowledged changes are on disk, and the next start recovers them",
          { cause: error },
        );
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
    if (!isSmall) void checkAside(file, writer, log);
    return { writer, tables };
  } catch (error) {
    await directory.close();
    throw damageOf(error, file);
  }
}

async function checkAside(file: string, writer: GroupCommit, log: Log): Promise<void> {
  const [problem] = await checkPagesInThread(file);
  if (problem === undefined) return;
  const error = new DamageError(`\`${file}\`: ${problem}`);
  log.write("error", "store_damage_found", { error: error.message });
  writer.fail(error);
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

/** Takes less than a second. */
const START_CHECK_BYTES_MAX = 64 * 1_024 * 1_024;

/** Bounds the duration of a checkpoint to some ten milliseconds. */
const MEMTABLE_ROWS_MAX = 1_200;
