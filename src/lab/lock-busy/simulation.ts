/**
 * Simulates one row of `cordum lab lock-busy`: results of hot runs arrive at several replicas at the same virtual time.
 *
 * 1. Each replica is the production control plane; the network, the servers and the workers are simulated.
 * 2. A row fails when a lock has two holders, a result is applied twice or the broker drops a message.
 */

import { BATCH_MAX } from "../../core/contention/lock-turn.ts";
import type { Settings } from "../../core/settings.ts";
import { completeLeased } from "../../engine/dispatch/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { runLockKey } from "../../engine/runs/index.ts";
import { problemResponse, toProblem } from "../../gateway/problem.ts";
import { latency } from "../../sim/adapters/net.ts";
import { type SimNet, simWorld } from "../../sim/adapters/world.ts";
import { LockChecker } from "../../sim/checks/lease-checkers.ts";
import { Violations } from "../../sim/checks/violations.ts";
import type { Decorator } from "../../sim/mutants/decorators.ts";
import { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";
import type { Row } from "../experiment.ts";
import { openLabNet, startReplicas } from "../simulation.ts";
import type { LockBusyParams, Variant } from "./experiment.ts";
import { observeLock, Probe, type ResultOutcome } from "./probe.ts";
import { type Contender, ORG, type PreparedRuns, restore, resultOf } from "./scenario.ts";

export type RowRequest = Pick<
  LockBusyParams,
  "replicas" | "holdMs" | "latencyMs" | "latencySpread" | "nakLookMs" | "stepMs" | "binMs"
> & {
  readonly seed: number;
  readonly settings: Settings;
  readonly variant: Variant;
  /** Injects a bug, to test (2). */
  readonly mutant?: Decorator;
};

export interface History extends Omit<Row, "key"> {
  readonly outcomes: readonly ResultOutcome[];
  readonly net: SimNet;
}

export async function simulateRow(prepared: PreparedRuns, request: RowRequest): Promise<History> {
  const { settings, variant, replicas, stepMs, holdMs, latencyMs, latencySpread, nakLookMs } = request;
  const random = new SeededRandom(request.seed, "lock-busy");
  const net = openLabNet(random, settings, { latencyMs, latencySpread, nakLookMs });
  await restore(net, prepared);
  const { timeline } = net;
  const violations = new Violations(timeline);
  const checker = new LockChecker(violations, net.store);
  const probe = new Probe(prepared.contenders, () => timeline.nowMs);
  const { engines, processes } = await startReplicas(net, random, {
    ...{ count: replicas, settings, stepMs, safety: "local" },
    decorate: (world, process) => {
      const { mutant = (unchanged) => unchanged } = request;
      const pause = (delayMs: number) => new Promise<void>((resolve) => process.after(delayMs, resolve));
      const checked = checker.around(mutant(world), process);
      return observeLock(checked, probe, holdMs, { nowMs: () => timeline.nowMs, pause });
    },
  });
  if (variant === "leaked") await timeline.runUntilSettled(leakLocks(net, random, prepared, settings));
  net.bus.observe({
    delivered: (_process, { content }) => {
      if (content.kind === "packet" && content.packet.body.kind === "job_result")
        probe.delivered(content.packet.body.jobId);
    },
  });
  const stepsOf = (): number => processes.reduce((sum, { steps }) => sum + steps, 0);
  const stepsBefore = stepsOf();
  timeline.post(0, () => {
    if (variant === "gateway") callGateway(net, random.fork("clients"), engines, prepared.contenders, probe);
    else for (const { jobId } of prepared.contenders) net.bus.publish(resultOf(jobId));
  });
  await timeline.runUntilSettled(probe.done, LIMIT_MS);
  check(net, violations, probe);
  const figures = probe.figures({ binMs: request.binMs, idealMs: idealOf(prepared, request) });
  const outcomes = probe.outcomes(prepared.contenders);
  return { ...figures, outcomes, steps: stepsOf() - stepsBefore, net };
}

/** (2) */
function check({ bus }: SimNet, { found }: Violations, probe: Probe): void {
  if (found.length > 0) throw new Error(`the history violates an invariant: ${JSON.stringify(found)}`);
  probe.checkNoDuplicates();
  if (bus.exhausted.length > 0) throw new Error(`the broker dropped ${bus.exhausted.length} results`);
}

/**
 * The minimum lock time of one run: one hold per result, or one per batch with coalescing. Results are applied by the replica
 * that receives them, so batches are counted per replica. A leaked lock adds its TTL.
 */
export function idealOf(
  { contenders, runIds }: Pick<PreparedRuns, "contenders" | "runIds">,
  { settings, replicas, holdMs, variant }: Pick<RowRequest, "settings" | "replicas" | "holdMs" | "variant">,
): number {
  const widest = Math.ceil(contenders.length / runIds.length);
  const shares = Math.min(replicas, widest);
  const turns = settings.runLock.coalesce ? shares * Math.ceil(widest / shares / BATCH_MAX) : widest;
  return turns * holdMs + (variant === "leaked" ? settings.runLock.ttlMs : 0);
}

/** A process acquires the lock of every run and crashes. */
async function leakLocks(
  net: SimNet,
  random: SeededRandom,
  { runIds }: PreparedRuns,
  { runLock }: Settings,
): Promise<void> {
  const process = new Process(net.timeline, "victim", random.fork("victim"));
  const { locks } = simWorld(net, process, { safety: "local" });
  const request = { org: ORG, owner: process.name, ttlMs: runLock.ttlMs, waitMs: 0 };
  await Promise.all(runIds.map((runId) => locks.acquire({ ...request, key: runLockKey(runId) })));
  process.crash();
}

/** HTTP workers that report their results at the same time. A rejected one retries after `Retry-After`, at the next replica. */
function callGateway(
  { timeline, faults }: SimNet,
  random: SeededRandom,
  engines: readonly Engine[],
  contenders: readonly Contender[],
  probe: Probe,
): void {
  const hopMs = (): number => latency(random, faults.bus);
  const call = (contender: Contender, turn: number): void => {
    const { jobId, leaseId } = contender;
    const engine = engines[turn % engines.length]!;
    probe.delivered(jobId);
    completeLeased(engine, { org: ORG, jobId, leaseId: leaseId ?? "" }, null).then(
      (completed) => {
        if (completed.kind !== "held") throw new Error(`job \`${jobId}\` was no longer leased to the worker`);
      },
      (error: unknown) => {
        const { body } = problemResponse(toProblem(error), () => engine.world.random.next());
        const afterMs = Number(body.retry_after_ms ?? Number.NaN);
        timeline.post(hopMs() + afterMs + hopMs(), () => call(contender, turn + 1));
      },
    );
  };
  for (const [index, contender] of contenders.entries()) timeline.post(hopMs(), () => call(contender, index));
}

/** One week: the job deadline. */
const LIMIT_MS = 7 * 24 * 3_600_000;
