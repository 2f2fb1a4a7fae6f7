import { Redis } from "ioredis";
import { startRedis } from "../../test/servers/start.ts";
import { machineMs } from "../child/clocks.ts";
import { GO_CHANNEL, LOCK_PEERS, type LockFigures, type LockPeer } from "../child/task.ts";
import { percentile } from "../frame/figures.ts";
import { Series } from "../frame/series.ts";
import { REDIS_DURABILITY } from "../frame/servers.ts";
import { atMost, type Bench, type Suite } from "../frame/suite.ts";

/** One hot lock, many simultaneous contenders in several processes. */
export const LOCK_SUITE: Suite = {
  title: "lock: 100 contenders in 4 processes, each holds the same lock for 5 ms; ideal 500 ms",
  notes: [
    "drain: from the signal to the end of the last hold; overlaps by the monotonic clock of the machine",
    "hold: mean hold time; gap: median time from the end of a hold to the start of the next",
    "attempts: as counted by each lock; requests: Redis commands per acquisition, with wait and release",
    "redlock with its default delay (200 ms ± 100 ms) and with 10 ms, without its limit of tries; redis-semaphore: default Mutex",
  ],
  columns: [
    { key: "drain_ms", title: "drain ms", digits: 0 },
    { key: "over_ideal", title: "× ideal", digits: 2 },
    { key: "hold_ms", title: "hold ms", digits: 2 },
    { key: "gap_ms", title: "gap ms", digits: 2 },
    { key: "attempts_per_acquisition", title: "attempts", digits: 2 },
    { key: "requests_per_acquisition", title: "requests", digits: 1 },
    { key: "overlaps", title: "overlaps", digits: 0 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= Math.max(bench.isQuick ? 1 : 3, bench.rounds); round++) {
      for (const peer of LOCK_PEERS) {
        const figures = await measure(bench, peer);
        bench.logProgress(`lock, round ${round}: ${peer}: ${Math.round(figures.drain_ms)} ms`);
        series.add(peer, null, figures);
        if (figures.overlaps > 0 && peer === "cordum")
          faults.push(`the lock had two holders ${figures.overlaps} times`);
      }
    }
    const targets = [
      atMost("hot lock ≤ 1.25 × ideal", series.median("cordum", null, "over_ideal"), 1.25),
      atMost("≤ 1.5 attempts per acquisition", series.median("cordum", null, "attempts_per_acquisition"), 1.5),
      atMost("no overlap", Math.max(...series.values("cordum", null, "overlaps")), 0),
    ];
    return { series, faults, targets };
  },
};

async function measure({ children }: Bench, peer: LockPeer) {
  const server = await startRedis(REDIS_DURABILITY);
  const redis = new Redis(server.url);
  try {
    const task = {
      kind: "lock",
      peer,
      redisUrl: server.url,
      contenders: CONTENDERS / PROCESSES,
      holdMs: HOLD_MS,
    } as const;
    const contenders = await Promise.all(Array.from({ length: PROCESSES }, () => children.start<LockFigures>(task)));
    const beganMs = machineMs();
    await redis.publish(GO_CHANNEL, "go");
    const figures = await Promise.all(contenders.map((contender) => contender.done));
    const holdsMs = figures.flatMap((contender) => contender.holdsMs);
    const drainMs = Math.max(...holdsMs.map(([, toMs]) => toMs)) - beganMs;
    return {
      drain_ms: drainMs,
      over_ideal: drainMs / (CONTENDERS * HOLD_MS),
      hold_ms: meanOf(holdsMs.map(([fromMs, toMs]) => toMs - fromMs)),
      gap_ms: percentile(gapsOf(holdsMs), 0.5),
      attempts_per_acquisition: figures.reduce((total, { attempts }) => total + attempts, 0) / CONTENDERS,
      requests_per_acquisition: figures.reduce((total, { requests }) => total + requests, 0) / CONTENDERS,
      overlaps: overlapsOf(holdsMs),
    };
  } finally {
    redis.disconnect();
    await server.stop();
  }
}

/** From the end of a hold to the start of the next. */
function gapsOf(holdsMs: readonly (readonly [number, number])[]): readonly number[] {
  const sorted = holdsMs.toSorted((a, b) => a[0] - b[0]);
  return sorted.slice(1).map(([fromMs], at) => fromMs - (sorted[at]?.[1] ?? fromMs));
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** How many holds started before an earlier one ended. */
function overlapsOf(holdsMs: readonly (readonly [number, number])[]): number {
  let overlaps = 0;
  let heldUntilMs = 0;
  for (const [fromMs, toMs] of holdsMs.toSorted((a, b) => a[0] - b[0])) {
    if (fromMs < heldUntilMs) overlaps++;
    heldUntilMs = Math.max(heldUntilMs, toMs);
  }
  return overlaps;
}

const CONTENDERS = 100;
const PROCESSES = 4;
const HOLD_MS = 5;
