/** Writes records into the data directory of a control plane before it starts: faster than to produce them by jobs. */
import { CONTENTION } from "../../../src/core/contention/acquisition.ts";
import { encodeRecord } from "../../../src/core/contention/codec.ts";
import { DEAD_LETTERS, type DeadLetter, withFingerprint } from "../../../src/core/model/dead-letter.ts";
import { JOBS, type Job } from "../../../src/core/model/job.ts";
import { put } from "../../../src/ports/store.ts";
import type { World } from "../../../src/ports/world.ts";
import { openEmbedded } from "../../../src/worlds/embedded.ts";
import { NO_METRICS, NO_SAFETY } from "../../contract/embedded.ts";
import { acquisition, record } from "../../core/contention/fixtures.ts";
import { fresh } from "../../core/jobs/stages.ts";

/** Opens the data directory, and closes it after `write`. */
export async function openSeeded(dir: string, write: (world: World) => Promise<void>): Promise<void> {
  const { world, close } = await openEmbedded({
    ...{ dir, log: { write: () => {} }, metrics: NO_METRICS, safety: NO_SAFETY },
    bus: { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1 },
  });
  await write(world as World);
  await close();
}

/** One record: 60 results of one run that met at its lock, with the settings of the baseline. */
export function seedContention(dir: string): Promise<void> {
  return openSeeded(dir, async ({ store, clock }) => {
    const nowMs = clock.now();
    const acquisitions = Array.from({ length: 60 }, (_, at) =>
      acquisition({ arrivedMs: nowMs - 30_000, waitMs: 500 * at, attempts: 1 + at, wasBlocked: at > 0 }),
    );
    const stored = encodeRecord(record({ fromMs: nowMs - 60_000, toMs: nowMs, acquisitions }));
    const { kind } = await store.commit({ ...EMPTY, atMs: nowMs, puts: [put(CONTENTION, "seeded", null, stored)] });
    if (kind !== "committed") throw new Error(`the record: ${kind}`);
  });
}

/** A job whose worker stopped calling two minutes ago and holds a lease for ten more. */
export function seedSilentWorker(dir: string, worker: string, topic: string): Promise<void> {
  return openSeeded(dir, async ({ store, clock }) => {
    const [seenMs, dueMs] = [clock.now() - 120_000, clock.now() + 600_000];
    const times = { createdMs: seenMs, updatedMs: seenMs, dispatchedMs: seenMs, deadlineMs: dueMs, dueMs };
    const lease = { state: "RUNNING", workerId: worker, leaseId: "lease-1", attempt: 1 } as const;
    const job: Job = { ...fresh({ topic }), id: "held", traceId: "held", ...lease, ...times };
    const { kind } = await store.commit({ ...EMPTY, atMs: clock.now(), puts: [put(JOBS, job.id, null, job)] });
    if (kind !== "committed") throw new Error(`the job: ${kind}`);
  });
}

/** `letter-1` … of the tenant `default`: failed jobs of `demo.echo`, which succeed when they are retried. */
export function seedDeadLetters(dir: string, total: number): Promise<void> {
  return openSeeded(dir, async ({ store, clock }) => {
    const nowMs = clock.now();
    for (let at = 0; at < total; at += 250) {
      const puts = Array.from({ length: Math.min(250, total - at) }, (_, n) => {
        const [one, letter] = [job(at + n + 1, nowMs), deadLetter(at + n + 1, nowMs)];
        return [put(JOBS, one.id, null, one), put(DEAD_LETTERS, letter.id, null, letter)];
      }).flat();
      const { kind } = await store.commit({ ...EMPTY, atMs: nowMs, puts });
      if (kind !== "committed") throw new Error(`dead letters ${at} and following: ${kind}`);
    }
  });
}

const EMPTY = { org: "default", guards: [], sends: [], watch: [] } as const;
const DAY_MS = 86_400_000;

function job(n: number, nowMs: number): Job {
  const id = `letter-${n}`;
  const times = { createdMs: nowMs - DAY_MS, updatedMs: nowMs, deadlineMs: nowMs + DAY_MS, dueMs: nowMs + 7 * DAY_MS };
  return { ...fresh({ topic: "demo.echo", input: { n } }), id, traceId: id, state: "FAILED", attempt: 1, ...times };
}

function deadLetter(n: number, nowMs: number): DeadLetter {
  const id = `letter-${n}`;
  return withFingerprint({
    id,
    org: "default",
    createdMs: nowMs - 3_600_000,
    dueMs: nowMs + 86_400_000,
    reason: "permanent",
    error: { name: "Error", message: "price list not found", retryNever: true },
    source: { kind: "job", jobId: id, topic: "job.demo.echo", attempt: 1, input: { kind: "inline", value: { n } } },
    history: [],
  });
}
