import { hostname } from "node:os";
import { cryptoRandom } from "../adapters/node/crypto-random.ts";
import { wallClock } from "../adapters/node/wall-clock.ts";
import { SqliteBlobs } from "../adapters/sqlite/blobs.ts";
import { SqliteBus } from "../adapters/sqlite/bus/bus.ts";
import { openHere } from "../adapters/sqlite/link.ts";
import { EmbeddedLocks } from "../adapters/sqlite/locks.ts";
import type { FencePlace } from "../adapters/sqlite/records.ts";
import { Sequence } from "../adapters/sqlite/sequence.ts";
import { SqliteStore } from "../adapters/sqlite/store.ts";
import { type Link, Writer } from "../adapters/sqlite/writer.ts";
import type { BusOptions } from "../ports/bus.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Metrics } from "../ports/metrics.ts";
import type { Random } from "../ports/random.ts";
import type { Safety } from "../ports/safety.ts";
import type { World } from "../ports/world.ts";

export interface EmbeddedOptions {
  /** Made if it is not there. It belongs to this process until `close`. */
  readonly dir: string;
  readonly name?: string;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly safety: Safety;
  readonly bus: BusOptions;
  readonly clock?: Clock;
  readonly random?: Random;
  /** The shipped one, unless a test wants it otherwise. */
  readonly openLink?: (dir: string) => Promise<Link>;
}

export interface EmbeddedWorld {
  readonly world: World;
  /** Writes down what is under way and gives the directory free. Whoever consumes or serves should have stopped. */
  close(): Promise<void>;
}

/** A world in one process and one data directory; everything that is awaited in it survives a power cut. */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedWorld> {
  const { log, metrics, safety, clock = wallClock, openLink = openHere } = options;
  const random = options.random ?? cryptoRandom(clock);
  const writer = new Writer(await openLink(options.dir), clock, log);
  const store = new SqliteStore(writer);
  const { bus, fences } = await openParts(writer, clock, options);
  const locks = new EmbeddedLocks(clock, random, () => fences.next());
  const blobs = new SqliteBlobs(writer, clock);
  const stopTidying = startTidying(clock, log, store, blobs);
  const name = options.name ?? `${hostname()}-${process.pid}-${random.id().slice(-6)}`;
  return {
    world: { name, clock, random, bus, store, locks, blobs, safety, log, metrics },
    close: async () => {
      stopTidying();
      locks.close();
      bus.close();
      await writer.close();
    },
  };
}

async function openParts(writer: Writer, clock: Clock, { log, bus: busOptions }: EmbeddedOptions) {
  try {
    const bus = await SqliteBus.open(writer, clock, log, busOptions);
    return { bus, fences: await Sequence.open(writer, log, "fence") };
  } catch (error) {
    // Whoever tries again must find the directory free.
    await writer.close();
    throw error;
  }
}

/** Every minute a bounded step: expired blobs, fences of records that are long gone. */
function startTidying(clock: Clock, log: Log, store: SqliteStore, blobs: SqliteBlobs): Cancel {
  let from: FencePlace | null = null;
  let isStopped = false;
  let cancel: Cancel = () => {};
  const tidy = async () => {
    try {
      await blobs.removeExpired(TIDY_BLOBS_MAX);
      from = await store.forgetFences(clock.now() - FENCE_KEPT_MS, from, TIDY_FENCES_MAX);
    } catch (error) {
      if (!isStopped) log.write("warn", "store.tidy_failed", { error: String(error) });
    }
    if (!isStopped) arm();
  };
  const arm = () => {
    cancel = clock.after(TIDY_EVERY_MS, () => void tidy());
  };
  arm();
  return () => {
    isStopped = true;
    cancel();
  };
}

const TIDY_EVERY_MS = 60_000;
const TIDY_BLOBS_MAX = 50;
const TIDY_FENCES_MAX = 1_000;
/** Far longer than anybody can have held a lock. */
const FENCE_KEPT_MS = 7 * 24 * 3_600_000;
