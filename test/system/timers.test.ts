import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defaultSettings } from "../../src/config.ts";
import { openFlow } from "../../src/flow/flow.ts";
import { Sweeper } from "../../src/flow/sweep.ts";
import { RESERVATIONS } from "../../src/jobs/idempotency.ts";
import { put } from "../../src/ports/store.ts";
import { counting } from "../../src/sim/quiet.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";
import { sweepPast } from "./pending-timers.ts";

test("100,000 timers of one instant fire in one sweep, from disk", async () => {
  const dir = mkdtempSync(join(tmpdir(), "cordum-timers-"));
  const { log, metrics } = counting();
  const decision = { effect: "allow", ruleId: null, reason: "", snapshot: "" } as const;
  const safety = { local: () => decision, check: async () => ({ kind: "decided", decision }) as const };
  const bus = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 256 };
  const { world, close } = await openEmbedded({ dir, name: "timers", log, metrics, safety, bus });
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
    const sweeper = new Sweeper(openFlow(world, { current: defaultSettings() }));
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

test("timers that are pending cost a sweep nothing: 100,000 about as much as 1,000, on disk", async () => {
  const few = await sweepPast(1_000);
  const many = await sweepPast(100_000);
  expect([few.fired, many.fired]).toEqual([["due"], ["due"]]);
  // Of CPU, not of time. Whoever looked at each of them would need a hundred times as much.
  expect(many.sweepMs).toBeLessThan(5 * few.sweepMs);
}, 300_000);
