/** So many timers that are far from due, on disk: what it costs to sweep past them, and to start anew with them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultSettings } from "../../src/config.ts";
import { openFlow } from "../../src/flow/flow.ts";
import { Sweeper } from "../../src/flow/sweep.ts";
import { RESERVATIONS } from "../../src/jobs/idempotency.ts";
import type { Change, Store } from "../../src/ports/store.ts";
import { put } from "../../src/ports/store.ts";
import { counting } from "../../src/sim/quiet.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";

export interface PendingReport {
  readonly pending: number;
  /** CPU of one sweep that finds nothing due, in this process; the least of several rounds. */
  readonly sweepMs: number;
  /** Whether what was due in the end was found, and nothing else. */
  readonly fired: readonly string[];
}

export async function sweepPast(pending: number): Promise<PendingReport> {
  const dir = mkdtempSync(join(tmpdir(), "cordum-pending-"));
  try {
    const filled = await openWorld(dir);
    await fill(filled.world.store, pending, filled.world.clock.now() + FAR_MS);
    await filled.close();
    // Opened anew: what a process remembers of what it wrote must not be what makes it cheap.
    const { world, close } = await openWorld(dir);
    try {
      const sweeper = new Sweeper(openFlow(world, { current: defaultSettings() }));
      const sweepMs = await leastCpuMs(sweeper);
      await world.store.commit(changeOf(world.clock.now(), ["due"], world.clock.now()));
      const nowMs = world.clock.now();
      const due = await world.store.due({ nowMs, untilMs: nowMs + 60_000, leaseMs: 1_000, limit: 10 });
      return { pending, sweepMs, fired: due.map(({ id }) => id) };
    } finally {
      await close();
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function fill(store: Store, pending: number, fromMs: number): Promise<void> {
  for (let done = 0; done < pending; done += CHUNK) {
    const commits = Array.from({ length: Math.min(CHUNK, pending - done) / EACH }, (_, at) => {
      const ids = Array.from({ length: EACH }, (_, n) => `far-${done + at * EACH + n}`);
      return store.commit(changeOf(fromMs + done, ids, fromMs));
    });
    await Promise.all(commits);
  }
}

function changeOf(dueMs: number, ids: readonly string[], atMs: number): Change {
  const reservation = { jobId: "j", traceId: "t", fingerprint: "f", dueMs };
  const puts = ids.map((id) => put(RESERVATIONS, id, null, reservation));
  return { org: "o", atMs, puts, guards: [], sends: [], watch: [] };
}

async function leastCpuMs(sweeper: Sweeper): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage();
    for (let n = 0; n < SWEEPS; n++) await sweeper.sweep();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1_000 / SWEEPS);
  }
  return least;
}

function openWorld(dir: string) {
  const { log, metrics } = counting();
  const decision = { effect: "allow", ruleId: null, reason: "", snapshot: "" } as const;
  const safety = { local: () => decision, check: async () => ({ kind: "decided", decision }) as const };
  const bus = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 256 };
  return openEmbedded({ dir, name: "timers", log, metrics, safety, bus });
}

const FAR_MS = 24 * 3_600_000;
/** Commits at a time, and timers in each. */
const EACH = 10;
const CHUNK = 5_000;
const ROUNDS = 8;
const SWEEPS = 50;
