/** Writes records into the data directory of a control plane before it starts: faster than to produce them by jobs. */
import { CONTENTION } from "../../src/core/contention/acquisition.ts";
import { encodeRecord } from "../../src/core/contention/codec.ts";
import { DEAD_LETTERS, type DeadLetter, withFingerprint } from "../../src/core/model/dead-letter.ts";
import { put } from "../../src/ports/store.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";
import { NO_METRICS, NO_SAFETY } from "../contract/embedded.ts";
import { acquisition, record } from "../core/contention/fixtures.ts";

/** One record: 60 results of one run that met at its lock, with the settings of the baseline. */
export async function seedContention(dir: string): Promise<void> {
  const { world, close } = await openSeeded(dir);
  const nowMs = world.clock.now();
  const acquisitions = Array.from({ length: 60 }, (_, at) =>
    acquisition({ arrivedMs: nowMs - 30_000, waitMs: 500 * at, attempts: 1 + at, wasBlocked: at > 0 }),
  );
  const stored = encodeRecord(record({ fromMs: nowMs - 60_000, toMs: nowMs, acquisitions }));
  const puts = [put(CONTENTION, "seeded", null, stored)];
  const { kind } = await world.store.commit({ ...EMPTY, atMs: nowMs, puts });
  if (kind !== "committed") throw new Error(`the record: ${kind}`);
  await close();
}

/** `letter-1` … of the tenant `default`, as the demo worker causes them. Their jobs do not exist. */
export async function seedDeadLetters(dir: string, total: number): Promise<void> {
  const { world, close } = await openSeeded(dir);
  const letters = Array.from({ length: total }, (_, at) => letter(at + 1, world.clock.now()));
  for (let at = 0; at < total; at += 500) {
    const puts = letters.slice(at, at + 500).map((one) => put(DEAD_LETTERS, one.id, null, one));
    const { kind } = await world.store.commit({ ...EMPTY, atMs: world.clock.now(), puts });
    if (kind !== "committed") throw new Error(`dead letters ${at} and following: ${kind}`);
  }
  await close();
}

const openSeeded = (dir: string) =>
  openEmbedded({
    ...{ dir, log: { write: () => {} }, metrics: NO_METRICS, safety: NO_SAFETY },
    bus: { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1 },
  });

const EMPTY = { org: "default", guards: [], sends: [], watch: [] } as const;

function letter(n: number, nowMs: number): DeadLetter {
  const id = `letter-${n}`;
  return withFingerprint({
    id,
    org: "default",
    createdMs: nowMs - 3_600_000,
    dueMs: nowMs + 86_400_000,
    reason: "permanent",
    error: { name: "Error", message: "permanent demo failure", retryNever: true },
    source: { kind: "job", jobId: id, topic: "job.demo.broken", attempt: 1, input: { kind: "inline", value: { n } } },
    history: [],
  });
}
