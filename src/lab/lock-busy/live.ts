/**
 * One row of `cordum lab lock-busy` with real processes. Each process is a control plane; the results arrive over the bus.
 *
 * The observations of all processes are merged by the machine's clock and replayed into the `Probe` of the simulation, so
 * both compute their figures with the same code.
 */
import { DEAD_LETTERS, type DeadLetter } from "../../core/model/dead-letter.ts";
import { JOBS, type Job } from "../../core/model/job.ts";
import { RUNS } from "../../core/model/run.ts";
import type { Settlement } from "../../core/retry/bus-action.ts";
import type { Settings } from "../../core/settings.ts";
import { openEngine } from "../../engine/engine.ts";
import { type Control, startControl } from "../../engine/start-control.ts";
import type { Bus, Handler, Message } from "../../ports/bus.ts";
import type { Clock } from "../../ports/clock.ts";
import { type Change, NOWHERE, type Put } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { RESULT } from "../../protocol/subjects.ts";
import { localSafety } from "../../sim/adapters/safety.ts";
import { withHandler, withStore } from "../../sim/mutants/decorators.ts";
import {
  isDoneInTime,
  type LabProcess,
  type LiveFigures,
  type LiveRowRequest,
  type ProcessContext,
  type ProcessGroup,
} from "../live.ts";
import { ALLOW_ALL } from "../simulation.ts";
import { median } from "../statistics.ts";
import type { LockBusyParams, Variant } from "./experiment.ts";
import { type LockObserver, observeLock, Probe } from "./probe.ts";
import {
  type Contender,
  interleaved,
  resultOf,
  serveSilentWorker,
  settingsOf,
  startFanOuts,
  TOPIC,
  trackJob,
} from "./scenario.ts";
import { idealOf } from "./simulation.ts";

export type Observation = { readonly atMs: number } & (
  | { readonly kind: "delivered"; readonly jobId: string }
  | { readonly kind: "attempted" }
  | { readonly kind: "replied"; readonly fence: number | null }
  /** The change without the parts that the probe ignores. */
  | { readonly kind: "committed"; readonly change: Change }
);

export interface ProcessReport {
  readonly observations: readonly Observation[];
  readonly busyMs: number;
}

interface FanOuts {
  readonly runIds: readonly string[];
  readonly contenders: readonly Contender[];
}

/** Warm-up runs come first, because a control plane is slow right after its start. */
interface Prepared {
  readonly warmUp: FanOuts;
  readonly measured: FanOuts;
}

/** In this order. Process 0 prepares the runs and publishes the results. */
type Command =
  | { readonly do: "measure_naks" }
  | { readonly do: "prepare" }
  | { readonly do: "start" }
  | { readonly do: "publish"; readonly messages: readonly Message[] }
  /** Ends the warm-up: observations are discarded and lock holds take their time from now on. */
  | { readonly do: "begin" }
  | { readonly do: "report" };

export async function runLiveRow(
  group: ProcessGroup,
  { key, params }: LiveRowRequest<LockBusyParams>,
  timeUp: Promise<void>,
): Promise<LiveFigures> {
  const { warmUp, measured } = (await group.request(0, { do: "prepare" } satisfies Command)) as Prepared;
  await group.requestAll({ do: "start" } satisfies Command);
  if (!(await isDoneInTime(publishAll(group, warmUp), timeUp))) return { figures: {}, isFinished: false };
  await group.requestAll({ do: "begin" } satisfies Command);
  const isFinished = await isDoneInTime(publishAll(group, measured), timeUp);
  const reports = (await group.requestAll({ do: "report" } satisfies Command)) as readonly ProcessReport[];
  const observations = reports.flatMap((report) => report.observations);
  if (!observations.some(({ kind }) => kind === "attempted")) return { figures: {}, isFinished };
  const probe = replay(observations, measured.contenders);
  probe.checkNoDuplicates();
  const { binMs, holdMs, replicas, cap } = params;
  const settings = settingsOf(String(key.policy), cap === "on");
  const idealMs = idealOf(measured, { settings, replicas, holdMs, variant: params.variant as Variant });
  const busyMs = reports.reduce((sum, report) => sum + report.busyMs, 0);
  return { ...probe.figures({ binMs, idealMs }), isFinished, busyMs };
}

/** Publishes all results at once. Resolves when the last one is applied. */
async function publishAll(group: ProcessGroup, { contenders }: FanOuts): Promise<void> {
  // Counts only: events of several processes arrive in any order.
  const counter = new Probe(contenders, () => 0);
  group.onEvent((event) => {
    for (const change of event as readonly Change[]) counter.committed(change);
  });
  const messages = contenders.map(({ jobId }) => resultOf(jobId));
  await group.request(0, { do: "publish", messages } satisfies Command);
  await counter.done;
}

function replay(observations: readonly Observation[], contenders: readonly Contender[]): Probe {
  let nowMs = 0;
  const probe = new Probe(contenders, () => nowMs);
  for (const observation of observations.toSorted((a, b) => a.atMs - b.atMs)) {
    nowMs = observation.atMs;
    switch (observation.kind) {
      case "delivered":
        probe.delivered(observation.jobId);
        break;
      case "attempted":
        probe.attempted();
        break;
      case "replied":
        probe.replied(observation.fence);
        break;
      case "committed":
        probe.committed(observation.change);
        break;
      default:
        observation satisfies never;
    }
  }
  return probe;
}

export async function startLiveProcess(
  context: ProcessContext,
  { key, params }: LiveRowRequest<LockBusyParams>,
): Promise<LabProcess> {
  const settings = settingsOf(String(key.policy), params.cap === "on");
  const world = await context.openWorld({ settings, safety: localSafety(ALLOW_ALL) });
  const observations: Observation[] = [];
  let control: Control | null = null;
  let isWarm = false;
  let busyBeforeMs = 0;
  const pause = async (delayMs: number): Promise<void> => {
    if (isWarm) await context.pause(delayMs);
  };
  const start = async (): Promise<void> => {
    const observer = recordLock(context, world.clock, observations);
    const slow = observeLock(world, observer, params.holdMs, { nowMs: () => context.nowMs(), pause });
    control = await startControl(openEngine(recordDeliveries(slow, context, observations), { current: settings }));
  };
  return {
    handle: async (message) => {
      const command = message as Command;
      switch (command.do) {
        case "measure_naks":
          return measureNakTimer(world.bus, () => context.nowMs());
        case "prepare":
          return prepareLiveRuns(world, settingsOf("default", true), params);
        case "start":
          return start();
        case "publish":
          return context.publish(command.messages);
        case "begin":
          await context.pause(THROTTLE_WINDOW_MS);
          observations.length = 0;
          isWarm = true;
          busyBeforeMs = context.busyMs();
          return;
        case "report":
          return { observations, busyMs: context.busyMs() - busyBeforeMs } satisfies ProcessReport;
        default:
          return command satisfies never;
      }
    },
    close: async () => control?.stop(),
  };
}

/** Starts the warm-up runs and the measured runs, and waits until all of their jobs are with a worker. */
async function prepareLiveRuns(world: World, settings: Settings, params: LockBusyParams): Promise<Prepared> {
  const dispatched = new Map<string, Contender>();
  const count = params.contenders + WARM_UP.contenders;
  let resolveAll: () => void = () => undefined;
  const areDispatched = new Promise<void>((resolve) => {
    resolveAll = resolve;
  });
  const tracked = withStore((store) => ({
    commit: async (change) => {
      const committed = await store.commit(change);
      if (committed.kind !== "committed") return committed;
      for (const { table, value } of change.puts) if (table === JOBS.name && value) trackJob(dispatched, value as Job);
      if (dispatched.size === count) resolveAll();
      return committed;
    },
  }));
  const engine = openEngine(tracked(world), { current: settings });
  const stopWorker = await serveSilentWorker(engine);
  const control = await startControl(engine);
  // The worker reports no result from which dispatch could learn its capacity.
  const capacity = { id: "lab", transport: "bus", topics: [TOPIC], maxParallelJobs: count } as const;
  engine.registry.record(capacity, world.clock.now());
  const [warmUpIds, runIds] = [await startFanOuts(engine, WARM_UP), await startFanOuts(engine, params)];
  await areDispatched;
  await control.stop();
  await stopWorker();
  const all = [...dispatched.values()];
  const warmUp = { runIds: warmUpIds, contenders: interleaved(all, warmUpIds) };
  return { warmUp, measured: { runIds, contenders: interleaved(all, runIds) } };
}

function recordLock(context: ProcessContext, clock: Clock, observations: Observation[]): LockObserver {
  // Events are sent in batches, so that the command does not compete for a core with the next lock holder.
  let pending: Change[] = [];
  const flush = (): void => {
    context.emit(pending);
    pending = [];
  };
  return {
    attempted: () => void observations.push({ atMs: context.nowMs(), kind: "attempted" }),
    replied: (fence) => void observations.push({ atMs: context.nowMs(), kind: "replied", fence }),
    committed: (full) => {
      const change = reduced(full);
      if (change === null) return;
      observations.push({ atMs: context.nowMs(), kind: "committed", change });
      if (pending.push(change) === 1) clock.after(FLUSH_EVERY_MS, flush);
    },
  };
}

function recordDeliveries(world: World, context: ProcessContext, observations: Observation[]): World {
  return withHandler((handle) => (delivery) => {
    const { content } = delivery;
    if (content.kind === "packet" && content.packet.body.kind === "job_result") {
      observations.push({ atMs: context.nowMs(), kind: "delivered", jobId: content.packet.body.jobId });
    }
    return handle(delivery);
  })(world);
}

/** The change without its runs, which are large and not needed by the probe. null: nothing is left. */
function reduced({ org, atMs, guards, puts }: Change): Change | null {
  const fences = guards.filter((guard) => guard.kind === "fence" && guard.table === RUNS.name);
  const kept = puts.flatMap((put): Put[] => {
    if (put.value === null) return [];
    const { id, state } = put.value as Job;
    if (put.table === JOBS.name) return [{ ...put, value: { id, state }, from: NOWHERE, to: NOWHERE }];
    const { source } = put.value as DeadLetter;
    return put.table === DEAD_LETTERS.name ? [{ ...put, value: { source }, from: NOWHERE, to: NOWHERE }] : [];
  });
  if (fences.length === 0 && kept.length === 0) return null;
  return { org, atMs, guards: fences, puts: kept, sends: [], watch: [] };
}

export async function measureBroker(group: ProcessGroup): Promise<LiveFigures> {
  const nakLookMs = Number(await group.request(0, { do: "measure_naks" } satisfies Command));
  return { figures: { nak_look_ms: nakLookMs }, isFinished: true };
}

/**
 * Measures the redelivery timer of the broker. JetStream has one timer for all delayed naks, which every nak restarts with
 * 10 ms: a nak with a delay of 1 ms is redelivered after 10 ms. Returns 0 where each message has its own timer.
 */
export async function measureNakTimer(bus: Pick<Bus, "publish" | "consume">, nowMs: () => number): Promise<number> {
  const roundTripsMs = { immediate: [] as number[], delayed: [] as number[] };
  let nakSentMs: number | null = null;
  let resolveDone: () => void = () => undefined;
  const done = new Promise<void>((resolve) => {
    resolveDone = resolve;
  });
  // The difference between delayed and immediate redelivery is the time of the timer.
  const handle: Handler = async (): Promise<Settlement> => {
    const atMs = nowMs();
    const { immediate, delayed } = roundTripsMs;
    if (nakSentMs !== null) (immediate.length < NAKS ? immediate : delayed).push(atMs - nakSentMs);
    nakSentMs = atMs;
    if (immediate.length < NAKS) return { kind: "nak" };
    if (delayed.length < NAKS) return { kind: "nakDelay", delayMs: NAK_DELAY_MS };
    resolveDone();
    return { kind: "ack" };
  };
  const stop = await bus.consume(RESULT, "lab-naks", handle);
  await bus.publish(resultOf("lab-nak"));
  await done;
  await stop();
  const timerMs = median(roundTripsMs.delayed) - median(roundTripsMs.immediate);
  return timerMs < 3 * NAK_DELAY_MS ? 0 : timerMs;
}

/** The fairness throttle (`engine/fairness-throttle.ts`) must forget the warm-up runs. */
const THROTTLE_WINDOW_MS = 500;
const FLUSH_EVERY_MS = 100;
const WARM_UP = { contenders: 120, hotRuns: 3 };
const NAK_DELAY_MS = 1;
const NAKS = 25;
