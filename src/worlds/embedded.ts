import { hostname } from "node:os";
import { cryptoRandom } from "../adapters/node/crypto-random.ts";
import { diskOf } from "../adapters/node/disk.ts";
import { threadEvaluator } from "../adapters/node/thread-evaluator.ts";
import { systemTime } from "../adapters/node/wall-clock.ts";
import { SqliteBlobs } from "../adapters/sqlite/blobs.ts";
import { SqliteBus } from "../adapters/sqlite/bus/bus.ts";
import { EmbeddedLocks } from "../adapters/sqlite/locks.ts";
import type { FencePlace } from "../adapters/sqlite/queries.ts";
import { Sequence } from "../adapters/sqlite/sequence.ts";
import { openStorage, type Storage } from "../adapters/sqlite/storage.ts";
import { SqliteStore } from "../adapters/sqlite/store.ts";
import type { BusOptions } from "../ports/bus.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { Disk } from "../ports/disk.ts";
import type { Evaluator } from "../ports/evaluator.ts";
import type { Log } from "../ports/log.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { Random } from "../ports/random.ts";
import type { Safety } from "../ports/safety.ts";
import { SteadyClock, type TimeSource } from "../ports/steady-clock.ts";
import type { World } from "../ports/world.ts";

export interface EmbeddedOptions {
  /** Created if missing, and locked by this process until `close`. */
  readonly dir: string;
  readonly name?: string;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly safety: Safety;
  readonly bus: BusOptions;
  /** Default: a thread. */
  readonly evaluator?: Evaluator;
  /** Replaces the clocks of the system; for tests. */
  readonly time?: TimeSource;
  /** Replaces the clock of the process; for tests. */
  readonly clock?: Clock;
  readonly random?: Random;
  /** Replaces the disk of `dir`; for tests. */
  readonly disk?: Disk;
  /** Rows in the memtable at which a checkpoint starts; for tests. */
  readonly memtableRowsMax?: number | undefined;
}

export interface EmbeddedWorld {
  readonly world: World;
  /** Writes everything in flight and releases the directory. Consumers and servers should be stopped before. */
  close(): Promise<void>;
}

/**
 * A world in one process and one data directory. A resolved write survives a power cut. The time continues where the last
 * process left it if the system clock was set back meanwhile: stored due times stay in reach.
 */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedWorld> {
  const { dir, log, metrics, safety, memtableRowsMax } = options;
  const steady = options.clock ? null : new SteadyClock(options.time ?? systemTime);
  const clock = options.clock ?? (steady as Clock);
  const random = options.random ?? cryptoRandom(clock);
  const storage = await openStorage(dir, { clock, log, memtableRowsMax });
  const { writer, tables } = storage;
  const store = new SqliteStore(writer, tables);
  const markTime = () => writer.write("tables", () => tables.sequences.raise(TIME_MARK, clock.now()));
  const { bus, fences } = await openBus(storage, clock, options, async () => steady?.continueFrom(await markTime()));
  const locks = new EmbeddedLocks(clock, random, () => fences.next());
  const blobs = new SqliteBlobs(writer, tables.blobs, clock);
  const stopCleanup = startCleanup(clock, log, store, blobs, markTime);
  const thread = threadEvaluator();
  const evaluator = options.evaluator ?? thread;
  const name = options.name ?? `${hostname()}-${process.pid}-${random.id().slice(-6)}`;
  return {
    world: {
      ...{ name, clock, random, bus, store, locks, blobs, safety, evaluator, log, metrics },
      disk: options.disk ?? diskOf(dir),
    },
    close: async () => {
      stopCleanup();
      await thread.close();
      locks.close();
      bus.close();
      // A disk that fails must not keep the directory from closing.
      await markTime().catch(() => undefined);
      await writer.close();
    },
  };
}

async function openBus(
  { writer, tables }: Storage,
  clock: Clock,
  { log, bus: busOptions }: EmbeddedOptions,
  setTime: () => Promise<void>,
) {
  try {
    await setTime();
    const bus = await SqliteBus.open(writer, tables.messages, clock, log, busOptions);
    return { bus, fences: await Sequence.open(writer, tables.sequences, log, "fence") };
  } catch (error) {
    // Releases the directory for the next try.
    await writer.close();
    throw error;
  }
}

/** Every minute: stores the time, and deletes a bounded number of expired blobs and of fences of removed records. */
function startCleanup(
  clock: Clock,
  log: Log,
  store: SqliteStore,
  blobs: SqliteBlobs,
  markTime: () => Promise<number>,
): Cancel {
  let from: FencePlace | null = null;
  let isStopped = false;
  let cancel: Cancel = () => {};
  const cleanUp = async () => {
    try {
      await markTime();
      await blobs.deleteExpired(BLOBS_PER_CLEANUP);
      from = await store.pruneFences(clock.now() - FENCE_KEPT_MS, from, FENCES_PER_CLEANUP);
    } catch (error) {
      if (!isStopped) log.write("warn", "store.cleanup_failed", { error: String(error) });
    }
    if (!isStopped) schedule();
  };
  const schedule = () => {
    cancel = clock.after(CLEANUP_EVERY_MS, () => void cleanUp());
  };
  schedule();
  return () => {
    isStopped = true;
    cancel();
  };
}

/** The sequence that keeps the latest time that was stored. */
const TIME_MARK = "clock";
const CLEANUP_EVERY_MS = 60_000;
const BLOBS_PER_CLEANUP = 50;
const FENCES_PER_CLEANUP = 1_000;
/** Far longer than any lock is held. */
const FENCE_KEPT_MS = 7 * 24 * 3_600_000;
