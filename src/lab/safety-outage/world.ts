/**
 * One row of `cordum lab safety-outage`: jobs come while the safety kernel is away, and it comes back, on virtual time.
 *
 * 1. Each replica is the shipped control plane (`openFlow`, `startControl`) with a kernel elsewhere. Invented is only the
 *    world round them: a kernel, and a worker that takes whatever is let out.
 * 2. Nothing is let out while the kernel is away unless a lease is open; what a lease let out carries its labels. Else the
 *    experiment fails: figures of a broken history say nothing.
 */

import { checkSubmission, type Submission } from "../../core/jobs/submission.ts";
import { ALL_TENANTS, FAIL_OPEN_MS } from "../../core/model/fail-open.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import type { Settings } from "../../core/settings.ts";
import { startControl } from "../../engine/control.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import { admitJob } from "../../engine/intake/index.ts";
import { openFailOpen } from "../../engine/safety/index.ts";
import { workSubject } from "../../protocol/subjects.ts";
import type { Kernel } from "../../sim/adapters/safety.ts";
import { openNet, type SimNet, simWorld } from "../../sim/adapters/world.ts";
import { NO_NET_FAULTS } from "../../sim/faults.ts";
import { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";
import { SlowKernel } from "./kernel.ts";
import { Lag } from "./lag.ts";

export interface OutageOrder {
  readonly seed: number;
  readonly settings: Settings;
  readonly replicas: number;
  readonly outageMs: number;
  readonly load: Load;
  /** When somebody opens a fail-open lease, after the kernel has gone; null for never. */
  readonly leaseAfterMs: number | null;
  readonly kernelMs: number;
  readonly latencyMs: number;
  readonly gone: "refuses" | "hangs";
}

/** So many jobs at one instant, so long before the kernel is back; or so many a second as long as it takes. */
export type Load =
  | { readonly kind: "burst"; readonly jobs: number; readonly waitedMs: number }
  | { readonly kind: "steady"; readonly perS: number };

export interface OutageHistory {
  readonly kernel: Pick<SlowKernel, "asksMs" | "late" | "backMs">;
  readonly lag: Lag;
  /** When the kernel went, and came back. */
  readonly fromMs: number;
  readonly toMs: number;
  /** When the first job came. */
  readonly loadMs: number;
  readonly endMs: number;
  /** Tries that found no kernel, or no way to it, while it was away. */
  readonly triesAway: number;
}

/** What is looked at after the kernel is back. */
export const WINDOW_MS = 15_000;

export async function runOutage(order: OutageOrder): Promise<OutageHistory> {
  const { settings, seed, latencyMs, outageMs } = order;
  const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = settings.bus;
  const random = new SeededRandom(seed, "safety-outage");
  const { store, bus, safety } = NO_NET_FAULTS;
  const faults = { store: { ...store, latencyMs }, bus: { ...bus, latencyMs }, safety };
  const net = openNet({ random, faults, bus: { ackWaitMs, deliverMax, inFlightMax }, kernel: NO_KERNEL });
  const { timeline } = net;
  const { kernelMs: serviceMs, gone } = order;
  const { timeoutMs } = settings.safety;
  const kernel = new SlowKernel({ net, random: random.fork("kernel"), serviceMs, latencyMs, timeoutMs, gone });
  const engines = await startAll(net, random, kernel, order);
  const lag = new Lag(() => timeline.nowMs);
  net.store.observe(({ puts }) => {
    for (const { table, value } of puts) if (table === JOBS.name && value !== null) lag.note(value as Job);
  });
  const fromMs = timeline.nowMs;
  const toMs = fromMs + outageMs;
  kernel.isAway = true;
  const loadAfterMs = order.load.kind === "steady" ? 0 : Math.max(0, outageMs - order.load.waitedMs);
  let stopLoad = (): void => undefined;
  timeline.post(loadAfterMs, () => {
    stopLoad = startLoad(net, random.fork("load"), engines, order.load);
  });
  if (order.leaseAfterMs !== null) openLeaseAfter(net, engines[0]!, order.leaseAfterMs, outageMs);
  await timeline.runUntil(toMs);
  const triesAway = net.counting.counters.get("cordum_scheduler_safety_unavailable_total") ?? 0;
  if (order.leaseAfterMs === null) lag.checkClosed();
  kernel.isAway = false;
  const drained = lag.drained();
  await timeline.runUntilSettled(Promise.race([drained, after(net, DRAIN_MS_MAX)]));
  await timeline.runUntil(Math.max(timeline.nowMs, (kernel.backMs ?? toMs) + WINDOW_MS));
  stopLoad();
  lag.checkLabels(net.store);
  return { kernel, lag, fromMs, toMs, loadMs: fromMs + loadAfterMs, endMs: timeline.nowMs, triesAway };
}

async function startAll(net: SimNet, random: SeededRandom, kernel: SlowKernel, order: OutageOrder): Promise<Engine[]> {
  const { timeline } = net;
  const engines: Engine[] = [];
  for (let index = 0; index < order.replicas; index += 1) {
    const process = new Process(timeline, `replica-${index + 1}`, random.fork(`replica-${index + 1}`));
    const world = kernel.around(simWorld(net, process, { safety: "remote" }), process);
    engines.push(openEngine(world, { current: order.settings }));
  }
  await timeline.runUntilSettled(Promise.all(engines.map(startControl)));
  const process = new Process(timeline, "worker", random.fork("worker"));
  // It takes whatever is sent, and that is the end of it here: what becomes of a job later is another matter.
  const taking = simWorld(net, process, { safety: "remote" }).bus.serve(workSubject(TOPIC), () => undefined);
  await timeline.runUntilSettled(taking);
  // The replicas' sweeps are spread.
  await timeline.runUntil(timeline.nowMs + SETTLE_MS);
  return engines;
}

function startLoad(net: SimNet, random: SeededRandom, engines: readonly Engine[], load: Load): () => void {
  const { timeline } = net;
  let count = 0;
  let isOn = true;
  const submit = (): void => {
    const engine = engines[count % engines.length]!;
    count += 1;
    // In the simulated world nobody is refused; a failure here is a bug, and ends the run.
    void admitJob(engine, SUBMISSION);
  };
  const next = (meanMs: number): void => {
    timeline.post(random.exponential(meanMs), () => {
      if (!isOn) return;
      submit();
      next(meanMs);
    });
  };
  if (load.kind === "steady") next(1_000 / load.perS);
  else for (let job = 0; job < load.jobs; job += 1) submit();
  return () => {
    isOn = false;
  };
}

/** A person has noticed, and has somebody's approval. */
function openLeaseAfter(net: SimNet, engine: Engine, afterMs: number, outageMs: number): void {
  const forMs = Math.min(FAIL_OPEN_MS.max, Math.max(FAIL_OPEN_MS.default, outageMs));
  net.timeline.post(afterMs, () => {
    void openFailOpen(engine, { scope: ALL_TENANTS, reason: "the safety kernel is away", by: "operator", forMs });
  });
}

const after = (net: SimNet, ms: number): Promise<void> =>
  new Promise((resolve) => net.timeline.post(ms, () => resolve()));

export const TOPIC = "lab.work";
export const SUBMISSION: Submission = submissionOf({ topic: TOPIC });

function submissionOf(raw: Record<string, unknown>): Submission {
  const checked = checkSubmission(raw);
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  return checked.submission;
}

/** Asked by nobody: `SlowKernel` stands before it. */
const NO_KERNEL: Kernel = {
  decide: () => {
    throw new Error("nobody asks this kernel");
  },
  health: "up",
  timeoutMs: 1_000,
};
const SETTLE_MS = 3_000;
/** A row that has not drained by then never will. */
const DRAIN_MS_MAX = 600_000;
