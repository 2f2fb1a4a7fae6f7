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
import { type GroundKind, onGround, openQuiet } from "../backends.ts";
import { fillPending, firedNow, leastSweepUs } from "./pending-timers.ts";

test("100,000 timers of one instant fire in one sweep, from disk", async () => {
  const dir = mkdtempSync(join(tmpdir(), "cordum-timers-"));
  const { world, close } = await openQuiet({ dir }, "timers");
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
  "%s: timers that are pending cost a sweep nothing: 100,000 about as much as 1,000",
  async (kind) => {
    const few = await sweepPast(kind, 1_000);
    const many = await sweepPast(kind, 100_000);
    expect([few.fired, many.fired]).toEqual([["due"], ["due"]]);
    // Of CPU, not of time. Whoever looked at each of them would need a hundred times as much.
    expect(many.sweepUs).toBeLessThan(5 * few.sweepUs);
  },
  300_000,
);

const sweepPast = (kind: GroundKind, pending: number) =>
  onGround(kind, async (ground) => {
    const filled = await openQuiet(ground, "timers");
    await fillPending(filled.world, pending);
    await filled.close();
    // Opened anew: what a process remembers of what it wrote must not be what makes it cheap.
    const { world, close } = await openQuiet(ground, "timers");
    const redis = "redis" in ground ? new Redis(ground.redis) : null;
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

/** What the server says of itself, in millionths of a second. */
async function serverUs(redis: Redis): Promise<number> {
  const info = await redis.info("cpu");
  const seconds = [...info.matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)].map(([, text]) => Number(text));
  return 1e6 * seconds.reduce((sum, one) => sum + one, 0);
}
