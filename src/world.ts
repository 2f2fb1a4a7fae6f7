import type { Blobs } from "./ports/blobs.ts";
import type { Bus } from "./ports/bus.ts";
import type { Clock } from "./ports/clock.ts";
import type { Locks } from "./ports/locks.ts";
import type { Log } from "./ports/log.ts";
import type { Metrics } from "./ports/metrics.ts";
import type { Random } from "./ports/random.ts";
import type { Safety } from "./ports/safety.ts";
import type { Store } from "./ports/store.ts";

/** Everything outside the core. Three exist: embedded, cluster (NATS JetStream and Redis), and simulated. */
export interface World {
  /** Names the process to operators: host, pid and boot. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly bus: Bus;
  readonly store: Store;
  readonly locks: Locks;
  readonly blobs: Blobs;
  readonly safety: Safety;
  readonly log: Log;
  readonly metrics: Metrics;
}
