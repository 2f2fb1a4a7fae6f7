import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { RESERVATIONS } from "../../../src/core/jobs/idempotency.ts";
import { openEngine } from "../../../src/engine/engine.ts";
import { Sweeper } from "../../../src/engine/maintenance/sweeper.ts";
import { put } from "../../../src/ports/store.ts";
import { type BackendKind, openWorld, withBackend } from "../backends.ts";
import { fillPending, firedNow, leastSweepUs } from "./pending-timers.ts";

test("fires 100,000 timers of one instant in one sweep from disk", async () => {
  const dir = mkdtempSync(join(tmpdir(), "cordum-timers-"));
  const { world, close } = await openWorld({ dir }, "timers");
  try {
    const dueMs = world.clock.now();
    const reservation = { jobId: "j", traceId: "t", fingerprint: "f", dueMs };
    for (let batch = 0; batch < 100; batch++) {
      const commits = Array.from({ length: 1_000 }, (_, index) => ({
        org: "o",
        atMs: dueMs,
        puts: [put(RESERVATIONS, `${batch}-${index}`, null, reservation)],
        guards: [],
        sends: [],
        watch: [],
      }));
      await Promise.all(commits.map((change) => world.store.commit(change)));
    }
    const sweeper = new Sweeper(openEngine(world, { current: defaultSettings() }));
    await sweeper.sweep();
    await sweeper.settled();
    const left = await world.store.due({ nowMs: dueMs, untilMs: dueMs + 3_600_000, leaseMs: 1, limit: 10 });
    expect(left).toEqual([]);
    expect(await world.store.load(RESERVATIONS, "99-999")).toBeNull();
  } finally {
    await close();
    rmSync(dir, { recursive: true, force: true });
  }
}, 120_000);

test.each(["embedded", "NATS + Redis"] as const)(
  "%s: the cost of a sweep does not grow with the number of pending timers and schedules",
  async (kind) => {
    const few = await sweepPast(kind, 1_000);
    const many = await sweepPast(kind, 100_000);
    expect([few.fired, many.fired]).toEqual([["due"], ["due"]]);
    // CPU time. A scan of all timers would cost a hundred times as much.
    expect(many.sweepUs).toBeLessThan(5 * few.sweepUs);
  },
  300_000,
);

const sweepPast = (kind: BackendKind, pending: number) =>
  withBackend(kind, async (backend) => {
    const filled = await openWorld(backend, "timers");
    await fillPending(filled.world, pending);
    await filled.close();
    // Reopened, to exclude caches of the writing process.
    const { world, close } = await openWorld(backend, "timers");
    const redis = "redis" in backend ? new Redis(backend.redis) : null;
    try {
      const cpuUs = async () => ownUs() + (redis ? await serverUs(redis) : 0);
      const sweepUs = await leastSweepUs(world, cpuUs, { rounds: 8, sweeps: 50 });
      return { sweepUs, fired: await firedNow(world) };
    } finally {
      redis?.disconnect();
      await close();
    }
  });

function ownUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** The CPU time of the server in microseconds. */
async function serverUs(redis: Redis): Promise<number> {
  const info = await redis.info("cpu");
  const seconds = [...info.matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)].map(([, text]) => Number(text));
  return 1e6 * seconds.reduce((sum, one) => sum + one, 0);
}
