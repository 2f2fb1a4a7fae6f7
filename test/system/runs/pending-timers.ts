/** The cost of a sweep with many pending timers and schedules that are not due. */
import { defaultSettings } from "../../../src/config/config.ts";
import { RESERVATIONS } from "../../../src/core/jobs/idempotency.ts";
import { SCHEDULES } from "../../../src/core/schedule/schedule.ts";
import { openEngine } from "../../../src/engine/engine.ts";
import { Sweeper } from "../../../src/engine/maintenance/sweeper.ts";
import type { Change } from "../../../src/ports/store.ts";
import { put } from "../../../src/ports/store.ts";
import type { World } from "../../../src/ports/world.ts";
import { burstSchedule } from "./schedule-burst.ts";

/** The CPU time of one sweep without due timers: the minimum over several rounds. */
export async function leastSweepUs(
  world: World,
  cpuUs: () => number | Promise<number>,
  { rounds, sweeps }: { readonly rounds: number; readonly sweeps: number },
): Promise<number> {
  const sweeper = new Sweeper(openEngine(world, { current: defaultSettings() }));
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const before = await cpuUs();
    for (let n = 0; n < sweeps; n++) await sweeper.sweep();
    least = Math.min(least, ((await cpuUs()) - before) / sweeps);
  }
  return least;
}

/** Adds one due timer and returns the ids of the due timers. */
export async function firedNow({ store, clock }: World): Promise<readonly string[]> {
  await store.commit(changeOf(clock.now(), ["due"], clock.now()));
  const nowMs = clock.now();
  const due = await store.due({ nowMs, untilMs: nowMs + 60_000, leaseMs: 1_000, limit: 10 });
  return due.map(({ id }) => id);
}

/** Every second one is a schedule. */
export async function fillPending({ store, clock }: World, pending: number): Promise<void> {
  const fromMs = clock.now() + FAR_MS;
  for (let done = 0; done < pending; done += CHUNK) {
    const commits = Array.from({ length: Math.min(CHUNK, pending - done) / EACH }, (_, at) => {
      const ns = Array.from({ length: EACH / 2 }, (_, n) => done + at * EACH + n);
      const change = changeOf(
        fromMs + done,
        ns.map((n) => `far-${n}`),
        fromMs,
      );
      const schedules = ns.map((n) => put(SCHEDULES, `far-${n}`, null, burstSchedule(n, fromMs + done, 0)));
      return store.commit({ ...change, puts: [...change.puts, ...schedules] });
    });
    await Promise.all(commits);
  }
}

function changeOf(dueMs: number, ids: readonly string[], atMs: number): Change {
  const reservation = { jobId: "j", traceId: "t", fingerprint: "f", dueMs };
  const puts = ids.map((id) => put(RESERVATIONS, id, null, reservation));
  return { org: "o", atMs, puts, guards: [], sends: [], watch: [] };
}

const FAR_MS = 24 * 3_600_000;
/** Timers and schedules per commit. */
const EACH = 100;
/** In one batch of concurrent commits. */
const CHUNK = 5_000;
