/**
 * Simulates one row of `cordum lab safety-outage`.
 *
 * 1. Each replica is the production control plane with a remote kernel. The kernel and the worker are simulated.
 * 2. The row fails when a job is dispatched during the outage without a lease, or a bypassed job lacks its labels.
 */

import { ALL_TENANTS, FAIL_OPEN_MS } from "../../core/model/fail-open.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import type { Settings } from "../../core/settings.ts";
import type { Engine } from "../../engine/engine.ts";
import { admitJob } from "../../engine/intake/index.ts";
import { openFailOpen } from "../../engine/safety/index.ts";
import type { Checked } from "../../ports/safety.ts";
import type { World } from "../../ports/world.ts";
import { workSubject } from "../../protocol/subjects.ts";
import { type SimNet, simWorld } from "../../sim/adapters/world.ts";
import { withSafety } from "../../sim/mutants/decorators.ts";
import { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";
import type { Row } from "../experiment.ts";
import { ALLOW, openLabNet, SerialServer, startReplicas } from "../simulation.ts";
import type { OutageParams } from "./experiment.ts";
import {
  measure,
  type OutageHistory,
  type RowSpec,
  SUBMISSION,
  settingsOf,
  TOPIC,
  WaitingJobs,
  WINDOW_MS,
} from "./scenario.ts";

export interface OutageRequest extends Pick<OutageParams, "replicas" | "outageMs" | "kernelMs" | "latencyMs"> {
  readonly seed: number;
  readonly settings: Settings;
  readonly load: Load;
  /** Time from the start of the outage to the fail-open lease; null for no lease. */
  readonly leaseAfterMs: number | null;
  readonly gone: "refuses" | "hangs";
}

/** `waitedMs`: time from the burst to the end of the outage. */
type Load =
  | { readonly kind: "burst"; readonly jobs: number; readonly waitedMs: number }
  | { readonly kind: "steady"; readonly perS: number };

export async function simulateRow(request: Omit<OutageRequest, "settings"> & RowSpec): Promise<Omit<Row, "key">> {
  const { load, outageMs } = request;
  // The part of the outage before a burst is idle and is skipped.
  const skippedMs = load.kind === "steady" ? 0 : Math.max(0, outageMs - load.waitedMs - IDLE_MS);
  const leaseAfterMs = request.leaseAfterMs === null ? null : Math.max(0, request.leaseAfterMs - skippedMs);
  const settings = settingsOf(request);
  const history = await simulateOutage({ ...request, settings, leaseAfterMs, outageMs: outageMs - skippedMs });
  return measure(history, request, skippedMs);
}

export async function simulateOutage(request: OutageRequest): Promise<OutageHistory> {
  const { settings, latencyMs, outageMs, load, leaseAfterMs } = request;
  const random = new SeededRandom(request.seed, "safety-outage");
  const net = openLabNet(random, settings, { latencyMs });
  const { timeline } = net;
  const kernel = new RemoteKernel(net, random.fork("kernel"), request);
  const engines = await startAll(net, random, kernel, request);
  const jobs = new WaitingJobs(() => timeline.nowMs);
  net.store.observe(({ puts }) => {
    for (const { table, value } of puts) if (table === JOBS.name && value !== null) jobs.record(value as Job);
  });
  const fromMs = timeline.nowMs;
  const toMs = fromMs + outageMs;
  kernel.isAway = true;
  const loadAfterMs = load.kind === "steady" ? 0 : Math.max(0, outageMs - load.waitedMs);
  let stopLoad = (): void => undefined;
  timeline.post(loadAfterMs, () => {
    stopLoad = startLoad(net, random.fork("load"), engines, load);
  });
  if (leaseAfterMs !== null) openLeaseAfter(net, engines[0]!, leaseAfterMs, outageMs);
  await timeline.runUntil(toMs);
  const failedChecks = net.counting.counters.get("cordum_scheduler_safety_unavailable_total") ?? 0;
  if (leaseAfterMs === null) jobs.checkClosed();
  kernel.isAway = false;
  const limit = new Promise<void>((resolve) => timeline.post(DRAIN_MS_MAX, resolve));
  await timeline.runUntilSettled(Promise.race([jobs.drained(), limit]));
  await timeline.runUntil(Math.max(timeline.nowMs, (kernel.backMs ?? toMs) + WINDOW_MS));
  stopLoad();
  jobs.checkLabels(net.store);
  return { kernel, jobs, fromMs, toMs, loadMs: fromMs + loadAfterMs, endMs: timeline.nowMs, failedChecks };
}

async function startAll(
  net: SimNet,
  random: SeededRandom,
  kernel: RemoteKernel,
  { replicas, settings }: OutageRequest,
): Promise<readonly Engine[]> {
  const { timeline } = net;
  const decorate = (world: World, process: Process): World => kernel.around(world, process);
  const { engines } = await startReplicas(net, random, { count: replicas, settings, safety: "remote", decorate });
  const process = new Process(timeline, "worker", random.fork("worker"));
  // The worker accepts every job; the rest of a job's life is not part of the experiment.
  const worker = simWorld(net, process, { safety: "remote" }).bus.serve(workSubject(TOPIC), () => undefined);
  await timeline.runUntilSettled(worker);
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
    // The simulated engine admits every job; a rejection is a bug and ends the run.
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

/** An operator opens a fail-open lease. */
function openLeaseAfter(net: SimNet, engine: Engine, afterMs: number, outageMs: number): void {
  const forMs = Math.min(FAIL_OPEN_MS.max, Math.max(FAIL_OPEN_MS.default, outageMs));
  net.timeline.post(afterMs, () => {
    void openFailOpen(engine, { scope: ALL_TENANTS, reason: "the safety kernel is down", by: "operator", forMs });
  });
}

/**
 * The simulated kernel. It handles one check at a time. During the outage it refuses connections or never responds. A
 * response after `safety.timeout_ms` is lost, but takes service time all the same: a burst of checks can keep the kernel busy
 * with responses that are lost.
 */
class RemoteKernel {
  isAway = false;
  readonly checksMs: number[] = [];
  late = 0;
  backMs: number | null = null;
  readonly #net: SimNet;
  readonly #random: SeededRandom;
  readonly #request: OutageRequest;
  readonly #server: SerialServer;

  constructor(net: SimNet, random: SeededRandom, request: OutageRequest) {
    this.#net = net;
    this.#random = random;
    this.#request = request;
    this.#server = new SerialServer(request.kernelMs);
  }

  /** The world of a process that uses this kernel. */
  around(world: World, process: Process): World {
    return withSafety(() => ({ check: () => this.#check(process) }))(world);
  }

  #check(process: Process): Promise<Checked> {
    const { timeline } = this.#net;
    const { latencyMs, settings } = this.#request;
    const { timeoutMs } = settings.safety;
    const calledMs = timeline.nowMs;
    return new Promise((resolve) => {
      timeline.postQuiet(this.#random.exponential(latencyMs), () => {
        const { afterMs, checked } = this.#respond(timeline.nowMs);
        const arrivesMs = afterMs + this.#random.exponential(latencyMs);
        const leftMs = calledMs + timeoutMs - timeline.nowMs;
        const isLate = arrivesMs > leftMs;
        if (isLate && checked.kind === "decided") this.late += 1;
        timeline.post(Math.min(arrivesMs, leftMs), () => {
          process.enter(() => {
            if (!isLate && checked.kind === "decided") this.backMs ??= timeline.nowMs;
            resolve(isLate ? { kind: "unavailable", reason: `no response within ${timeoutMs} ms` } : checked);
          });
        });
      });
    });
  }

  #respond(nowMs: number): { readonly afterMs: number; readonly checked: Checked } {
    this.checksMs.push(nowMs);
    if (!this.isAway) return { afterMs: this.#server.enqueue(nowMs), checked: { kind: "decided", decision: ALLOW } };
    const afterMs = this.#request.gone === "hangs" ? Number.POSITIVE_INFINITY : 0;
    return { afterMs, checked: { kind: "unavailable", reason: "connection refused" } };
  }
}

/** Lets the replicas settle and learn of an open lease before a burst. */
const IDLE_MS = 10_000;
const SETTLE_MS = 3_000;
const DRAIN_MS_MAX = 600_000;
