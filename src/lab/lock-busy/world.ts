/**
 * One row of `cordum lab lock-busy`: results of hot runs come to several replicas at the same instant, on virtual time.
 *
 * 1. Each replica is the shipped control plane: `openFlow`, `startControl`. Invented is only the world round it.
 * 2. A turn of the lock takes `holdMs`: see `watched`. A way through the network takes `latencyMs`, as evenly as
 *    `latencySpread` says. The code of a replica takes `stepMs` each time that it runs, of its one thread.
 * 3. A lock has one holder and a result is applied once, or the experiment fails: figures of a broken history say nothing.
 */

import type { Settings } from "../../core/settings.ts";
import { startControl } from "../../engine/control.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import { BATCH_MAX, runLockKey } from "../../engine/runs/index.ts";
import type { Message } from "../../ports/bus.ts";
import { RESULT } from "../../protocol/subjects.ts";
import { openNet, type SimNet, simWorld } from "../../sim/adapters/world.ts";
import { LockChecker } from "../../sim/checks/lease-checkers.ts";
import { Violations } from "../../sim/checks/violations.ts";
import { NO_NET_FAULTS } from "../../sim/faults.ts";
import type { Decorator } from "../../sim/mutants/decorators.ts";
import { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";
import type { Row } from "../experiment.ts";
import { callGateway } from "./clients.ts";
import type { Variant } from "./experiment.ts";
import { messageIdOf, Probe } from "./probe.ts";
import { ALLOWS, moveTo, ORG, type Stage } from "./stage.ts";
import { watched } from "./watched.ts";

export interface RowOrder {
  readonly seed: number;
  readonly settings: Settings;
  readonly replicas: number;
  readonly holdMs: number;
  readonly latencyMs: number;
  readonly latencySpread: number;
  readonly nakLookMs: number;
  readonly stepMs: number;
  readonly binMs: number;
  readonly variant: Variant;
  /** A bug, to see that it is found. */
  readonly plant?: Decorator;
}

export interface History extends Omit<Row, "key"> {
  readonly probe: Probe;
  readonly net: SimNet;
}

export async function runRow(stage: Stage, order: RowOrder): Promise<History> {
  const { settings, seed, latencyMs, latencySpread, nakLookMs, variant } = order;
  const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = settings.bus;
  const random = new SeededRandom(seed, "lock-busy");
  const { store, bus } = NO_NET_FAULTS;
  const way = { latencyMs, latencySpread };
  const faults = { ...NO_NET_FAULTS, store: { ...store, ...way }, bus: { ...bus, ...way, nakLookMs } };
  const net = openNet({ random, faults, bus: { ackWaitMs, deliverMax, inFlightMax }, kernel: ALLOWS });
  await moveTo(net, stage);
  const { timeline } = net;
  const violations = new Violations(timeline);
  const watch = new LockChecker(violations, net.store);
  const probe = new Probe(stage.contenders, () => timeline.nowMs);
  const engines: Engine[] = [];
  const processes: Process[] = [];
  for (let index = 0; index < order.replicas; index += 1) {
    const name = `replica-${index + 1}`;
    const process = new Process(timeline, name, random.fork(name), 0, order.stepMs);
    processes.push(process);
    const { plant = (sound) => sound } = order;
    const world = watch.around(plant(simWorld(net, process, { safety: "local" })), process);
    const throttle = {
      nowMs: () => timeline.nowMs,
      pause: (delayMs: number) => new Promise<void>((resolve) => process.after(delayMs, resolve)),
    };
    engines.push(openEngine(watched(world, probe, order.holdMs, throttle), { current: settings }));
  }
  await timeline.runUntilSettled(Promise.all(engines.map(startControl)));
  if (variant === "leaked") await timeline.runUntilSettled(leak(net, random, stage, settings));
  net.bus.observe({
    delivered: (_process, { content }) => {
      if (content.kind === "packet" && content.packet.body.kind === "job_result")
        probe.delivered(content.packet.body.jobId);
    },
  });
  const stepsOf = (): number => processes.reduce((sum, { steps }) => sum + steps, 0);
  const stepsBefore = stepsOf();
  timeline.post(0, () => {
    if (variant === "gateway") callGateway(net, random.fork("clients"), engines, stage.contenders, probe);
    else publishAll(net, stage);
  });
  await timeline.runUntilSettled(probe.done, LIMIT_MS);
  refuseBroken(net, violations, probe);
  const figures = probe.figures({ binMs: order.binMs, idealMs: idealOf(stage, order) });
  return { ...figures, steps: stepsOf() - stepsBefore, probe, net };
}

/** (3) */
function refuseBroken({ bus }: SimNet, { found }: Violations, { twice }: Probe): void {
  if (found.length > 0) throw new Error(`a history that must not be: ${JSON.stringify(found)}`);
  if (twice.length > 0) throw new Error(`${twice.length} results were applied twice, such as \`${twice[0]}\``);
  if (bus.exhausted.length > 0) throw new Error(`the broker gave up on ${bus.exhausted.length} results without a word`);
}

/**
 * The least time in which the lock can be held for all of one run, one after another: each result for itself, or as few
 * commits as hold them. Those are the commits of each replica that has some, for what comes to one is not applied by another.
 * A lock whose holder is dead is waited for, besides.
 */
export function idealOf(
  stage: Pick<Stage, "contenders" | "runIds">,
  { settings, replicas, holdMs, variant }: Pick<RowOrder, "settings" | "replicas" | "holdMs" | "variant">,
): number {
  const widest = Math.ceil(stage.contenders.length / stage.runIds.length);
  const shares = Math.min(replicas, widest);
  const turns = settings.runLock.coalesce ? shares * Math.ceil(widest / shares / BATCH_MAX) : widest;
  return turns * holdMs + (variant === "leaked" ? settings.runLock.ttlMs : 0);
}

/** All at once, as when a fan-out comes home. */
function publishAll(net: SimNet, { contenders }: Stage): void {
  for (const { jobId } of contenders) net.bus.publish(resultOf(jobId));
}

export function resultOf(jobId: string): Message {
  const body = { kind: "job_result", jobId, workerId: "worker", status: "succeeded", result: null } as const;
  const packet = { traceId: jobId, senderId: "worker", createdAtMs: 0, body };
  return { id: messageIdOf(jobId), subject: RESULT, packet };
}

/** Somebody takes the lock of every run, and is killed. */
async function leak(net: SimNet, random: SeededRandom, { runIds }: Stage, { runLock }: Settings): Promise<void> {
  const process = new Process(net.timeline, "victim", random.fork("victim"));
  const { locks } = simWorld(net, process, { safety: "local" });
  const request = { org: ORG, owner: process.name, ttlMs: runLock.ttlMs, waitMs: 0 };
  await Promise.all(runIds.map((runId) => locks.acquire({ ...request, key: runLockKey(runId) })));
  process.crash();
}

/** Longer than any row takes: a job is given up after a week. */
const LIMIT_MS = 7 * 24 * 3_600_000;
