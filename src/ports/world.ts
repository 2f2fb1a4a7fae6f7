import type { Blobs } from "./blobs.ts";
import type { Bus } from "./bus.ts";
import type { Clock } from "./clock.ts";
import type { Disk } from "./disk.ts";
import type { Evaluator } from "./evaluator.ts";
import type { Locks } from "./locks.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import type { Notifier } from "./notifier.ts";
import type { Random } from "./random.ts";
import type { Safety } from "./safety.ts";
import type { Store } from "./store.ts";

/** The set of ports the engine runs on: embedded, cluster (NATS JetStream and Redis) or simulated. */
export interface World {
  /** Process name shown to operators: host, pid and boot. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly bus: Bus;
  readonly store: Store;
  readonly locks: Locks;
  readonly blobs: Blobs;
  readonly safety: Safety;
  readonly evaluator: Evaluator;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Absent: nothing is notified. */
  readonly notifier?: Notifier;
  /** The disk of the data directory; absent if the data is on other servers. */
  readonly disk?: Disk;
}
