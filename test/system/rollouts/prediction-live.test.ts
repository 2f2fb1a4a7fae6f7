// Contention recorded under one policy predicts a live run of another one.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { traceOf } from "../../../src/core/contention/trace.ts";
import { readTraceFile } from "../../../src/lab/replay/trace-file.ts";
import { type WorkItem, worker } from "../../../src/worlds/worker-sdk.ts";
import { cordum } from "../../cli/run.ts";
import { type ClusterSystem, startCluster } from "./rollout-system.ts";

const RECORDED = "fixed:500ms";
const TREATMENT = "bounded:500ms:0.3";
/** Its prediction differs from the live run of the treatment by more than the limit. */
const OTHER = "bounded:500ms:0.15";
/** The median of several replays: with one, its own randomness is a third of the difference. */
const SEEDS = "9";
const RUNS = 10;
const ITEMS = 18;
const BURSTS = 2;
/** Not a divisor of the delay, so that the retries of different runs do not meet. */
const APART_MS = 130;
const TOPIC = "burst.item";
const LIMIT = 0.15;
/** A hold is some round trips to Redis. This delay is most of it, so it hardly depends on the speed of the machine. */
const REDIS_DELAY_MS = 10;
/** The mean holds of a record and of the live run that it is compared with differ by less. */
const HOLD_LIMIT = 0.1;
const MEASUREMENTS_MAX = 5;
/** No lock, claim or dispatch expires during a burst. */
const UNHURRIED = {
  CORDUM_RUN_LOCK_TTL_MS: "30000",
  CORDUM_BUS_ACK_WAIT_MS: "30000",
  CORDUM_DISPATCH_DEADLINE_MS: "60000",
};

interface Figures {
  readonly acquisitions: number;
  readonly drain_ms: { readonly p50: number };
  readonly wait_ms: { readonly p95: number };
}

const opened: ClusterSystem[] = [];
let dir = "";
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "cordum-prediction-"));
});
afterAll(async () => {
  await Promise.all(opened.map((system) => system.remove()));
  rmSync(dir, { recursive: true, force: true });
});

test("predicts drain time and p95 lock wait of a policy that is then run live", async () => {
  const { recorded, predicted, other, live } = await compared();
  expect([recorded.acquisitions, live.acquisitions]).toEqual([BURSTS * RUNS * ITEMS, BURSTS * RUNS * ITEMS]);
  // Without an effect of the policy, the record itself would be a prediction.
  expect(live.drain_ms.p50).toBeLessThan(0.6 * recorded.drain_ms.p50);
  expect(errorOf(predicted, live), JSON.stringify({ predicted, live })).toBeLessThanOrEqual(LIMIT);
  expect(errorOf(other, live), JSON.stringify({ other, live })).toBeGreaterThan(LIMIT);
}, 600_000);

/** The larger one of two relative errors: of the median drain time of a run, and of the p95 wait. */
function errorOf(predicted: Figures, live: Figures): number {
  const drain = predicted.drain_ms.p50 / live.drain_ms.p50 - 1;
  const wait = predicted.wait_ms.p95 / live.wait_ms.p95 - 1;
  return Math.max(Math.abs(drain), Math.abs(wait));
}

/**
 * A prediction holds for the recorded hold times. If those of the live run differ, the machine was slower or faster meanwhile,
 * and both are measured again. Any record and any live run with equal holds can be compared, also of different measurements.
 * The criterion does not look at what is predicted.
 */
async function compared(): Promise<{
  readonly recorded: Figures;
  readonly predicted: Figures;
  readonly other: Figures;
  readonly live: Figures;
}> {
  const measured: { readonly fixed: Exported; readonly bounded: Exported }[] = [];
  while (measured.length < MEASUREMENTS_MAX) {
    measured.push(await measure(measured.length));
    const pairs = measured.flatMap(({ fixed }) => measured.map(({ bounded }) => [fixed, bounded] as const));
    const apart = ([fixed, bounded]: (typeof pairs)[number]) => Math.abs(fixed.holdMs / bounded.holdMs - 1);
    const [fixed, bounded] = pairs.reduce((best, pair) => (apart(pair) < apart(best) ? pair : best));
    if (apart([fixed, bounded]) > HOLD_LIMIT) continue;
    const [recorded, predicted, other] = await replay(fixed.file);
    const [live] = await replay(bounded.file);
    return { recorded, predicted, other, live };
  }
  throw new Error(`the speed of the machine changed during every measurement: ${JSON.stringify(measured)}`);
}

interface Exported {
  readonly file: string;
  /** The mean. */
  readonly holdMs: number;
}

async function measure(at: number): Promise<{ readonly fixed: Exported; readonly bounded: Exported }> {
  const [fixed, bounded] = [await start(RECORDED), await start(TREATMENT)];
  // Alternating, so that other load on the machine does not meet one policy only.
  for (let burst = 0; burst < BURSTS; burst += 1) {
    await runBurst(fixed);
    await runBurst(bounded);
  }
  const exports = [await exported(fixed, `fixed-${at}.json`), await exported(bounded, `bounded-${at}.json`)] as const;
  await Promise.all(opened.splice(0).map((system) => system.remove()));
  return { fixed: exports[0], bounded: exports[1] };
}

function meanHold(file: string): number {
  const { holdMs, size } = traceOf(readTraceFile(readFileSync(file, "utf8")));
  return holdMs.reduce((sum, ms) => sum + ms, 0) / size;
}

async function start(policy: string): Promise<ClusterSystem> {
  const system = await startCluster({
    settings: { ...UNHURRIED, CORDUM_RETRY_LOCK_BUSY_POLICY: policy },
    redisDelayMs: REDIS_DELAY_MS,
  });
  opened.push(system);
  return system;
}

/** Exports what the control processes have recorded. They write it when they stop. */
async function exported(system: ClusterSystem, name: string): Promise<Exported> {
  expect(await system.stopControls()).toEqual([0, 0, 0]);
  const file = join(dir, name);
  const ran = await cordum(["trace", "export", file], { CORDUM_URL: system.api.url });
  expect(ran, ran.err).toMatchObject({ exitCode: 0 });
  return { file, holdMs: meanHold(file) };
}

/** What was recorded, and what the record predicts for the treatment and for the other policy. */
async function replay(file: string): Promise<readonly [recorded: Figures, predicted: Figures, other: Figures]> {
  const policies = ["--policy", TREATMENT, "--policy", OTHER];
  const ran = await cordum(["lab", "replay", "--from", file, ...policies, "--seeds", SEEDS, "--json"]);
  expect(ran, ran.err).toMatchObject({ exitCode: 0 });
  return JSON.parse(ran.out).results;
}

/**
 * Starts runs and holds their items until the worker has all of them. The results of one run then arrive at once, those of the
 * next run a little later: bursts of all runs at the same time would load the machine, and with it lengthen the holds.
 */
async function runBurst({ api, transport }: ClusterSystem): Promise<void> {
  const steps = { each: { topic: TOPIC, for_each: "${input.items}", max_parallel: ITEMS } };
  const applied = await api.post("/workflows", { id: "burst", steps });
  if (applied.status !== 200) throw new Error(JSON.stringify(applied.body));
  const releases = new Map<string, { readonly isReleased: Promise<void>; readonly release: () => void }>();
  const releaseOf = (runId: string) => {
    const known = releases.get(runId) ?? deferred();
    releases.set(runId, known);
    return known;
  };
  let held = 0;
  const isHeld = deferred();
  const handle = async ({ jobId }: WorkItem) => {
    held += 1;
    if (held === RUNS * ITEMS) isHeld.release();
    await releaseOf(jobId.split(":")[0] ?? "").isReleased;
    return null;
  };
  const stop = await worker({ id: "burst", topics: [TOPIC], concurrency: RUNS * ITEMS, transport, handle });
  try {
    const input = { items: Array.from({ length: ITEMS }, (_, at) => at) };
    const runIds: string[] = [];
    for (let at = 0; at < RUNS; at += 1) {
      const { status, body } = await api.post("/workflows/burst/runs", { input });
      if (status !== 200) throw new Error(JSON.stringify(body));
      runIds.push(body.run_id);
    }
    await isHeld.isReleased;
    for (const id of runIds) {
      releaseOf(id).release();
      await new Promise((resolve) => setTimeout(resolve, APART_MS));
    }
    for (const id of runIds) {
      const { body } = await api.until(`/workflow-runs/${id}`, (answer) => answer.body.state !== "RUNNING");
      expect(body.state).toBe("SUCCEEDED");
    }
  } finally {
    await stop();
  }
}

function deferred(): { readonly isReleased: Promise<void>; readonly release: () => void } {
  let release = (): void => {};
  const isReleased = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { isReleased, release };
}
