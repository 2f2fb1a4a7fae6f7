/**
 * One row of `cordum lab safety-outage` with real processes. The last process is the safety kernel, served over gRPC; the
 * others are control planes that use it. The kernel stops listening, a burst of jobs waits, and the kernel returns.
 *
 * The observations of all processes are merged by the machine's clock and replayed into `WaitingJobs`, so the figures are
 * computed by the code of the simulation.
 */
import { openGrpcSafety } from "../../adapters/grpc/safety.ts";
import { type SafetyServer, startSafetyServer } from "../../adapters/grpc/safety-server.ts";
import { JOBS, type Job, type JobState } from "../../core/model/job.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { builtInKernel, LiveKernel } from "../../core/policy/kernel.ts";
import { openEngine } from "../../engine/engine.ts";
import { admitJob } from "../../engine/intake/index.ts";
import { type Control, startControl } from "../../engine/start-control.ts";
import type { Safety } from "../../ports/safety.ts";
import type { World } from "../../ports/world.ts";
import { workSubject } from "../../protocol/subjects.ts";
import { around, withStore } from "../../sim/mutants/decorators.ts";
import {
  isDoneInTime,
  type LabProcess,
  type LiveFigures,
  type LiveRowRequest,
  type ProcessContext,
  type ProcessGroup,
  pauseUntil,
} from "../live.ts";
import { evenShares } from "../statistics.ts";
import type { OutageParams } from "./experiment.ts";
import { measure, type OutageHistory, SUBMISSION, settingsOf, TOPIC, WaitingJobs, WINDOW_MS } from "./scenario.ts";

export type KernelCommand =
  /** Returns the address. */
  | { readonly do: "serve" }
  /** Returns the time at which the kernel was down. */
  | { readonly do: "stop" }
  /** Returns the time at which the kernel was back, at `atMs` or later. */
  | { readonly do: "return"; readonly atMs: number };

export type ReplicaCommand =
  | { readonly do: "open"; readonly address: string }
  /** Returns when all jobs are accepted. */
  | { readonly do: "submit"; readonly jobs: number; readonly atMs: number }
  | { readonly do: "report" };

/** A committed job. Also emitted as an event when the job is new or no longer pending. */
export interface JobObservation {
  readonly atMs: number;
  readonly id: string;
  readonly state: JobState;
}

export interface CheckObservation {
  readonly atMs: number;
  /** null without a response so far. */
  readonly tookMs: number | null;
  readonly isDecided: boolean;
}

export interface ReplicaReport {
  readonly jobs: readonly JobObservation[];
  readonly checks: readonly CheckObservation[];
  /** Times of failed checks, at the kernel or at the breaker. */
  readonly failuresMs: readonly number[];
}

export async function runLiveRow(
  group: ProcessGroup,
  { key, params }: LiveRowRequest<OutageParams>,
  timeUp: Promise<void>,
): Promise<LiveFigures> {
  const outage = new Outage(group, params);
  const isFinished = await isDoneInTime(outage.run(), timeUp);
  const { times } = outage;
  if (times === null) return { figures: {}, isFinished };
  const spec = { policy: String(key.policy), hasBreaker: key.breaker === "on", binMs: params.binMs };
  const { timeoutMs } = settingsOf(spec).safety;
  return { ...measure(historyOf(await outage.reports(), times, timeoutMs), spec, 0), isFinished };
}

export interface OutageTimes {
  /** Start of the outage, burst, end of the outage. */
  readonly fromMs: number;
  readonly loadMs: number;
  readonly toMs: number;
}

export function historyOf(reports: readonly ReplicaReport[], times: OutageTimes, timeoutMs: number): OutageHistory {
  const { fromMs, toMs } = times;
  const jobs = replay(
    reports.flatMap((report) => report.jobs),
    times,
  );
  const checks = reports
    .flatMap((report) => report.checks.filter(({ atMs }) => atMs >= fromMs))
    .sort((a, b) => a.atMs - b.atMs);
  const decisionsMs = checks
    .flatMap(({ atMs, tookMs, isDecided }) => (isDecided && tookMs !== null ? [atMs + tookMs] : []))
    .filter((atMs) => atMs >= toMs);
  const kernel = {
    checksMs: checks.map(({ atMs }) => atMs),
    late: checks.filter((check) => check.atMs >= toMs && isTimedOut(check, timeoutMs)).length,
    backMs: decisionsMs.length === 0 ? null : Math.min(...decisionsMs),
  };
  const failures = reports.flatMap(({ failuresMs }) => failuresMs);
  const failedChecks = failures.filter((atMs) => atMs >= fromMs && atMs < toMs).length;
  const endMs = Math.max(jobs.drainedMs ?? toMs, (kernel.backMs ?? toMs) + WINDOW_MS);
  return { kernel, jobs, ...times, endMs, failedChecks };
}

/** Jobs submitted before the outage belong to the warm-up and are ignored. */
function replay(observations: readonly JobObservation[], { fromMs, toMs }: OutageTimes): WaitingJobs {
  const sorted = observations.toSorted((a, b) => a.atMs - b.atMs);
  const warmUp = new Set(sorted.filter(({ atMs }) => atMs < fromMs).map(({ id }) => id));
  let nowMs = fromMs;
  const jobs = new WaitingJobs(() => nowMs);
  const record = (isIncluded: (atMs: number) => boolean): void => {
    for (const observation of sorted) {
      if (!isIncluded(observation.atMs) || warmUp.has(observation.id)) continue;
      nowMs = observation.atMs;
      jobs.record(observation);
    }
  };
  record((atMs) => atMs < toMs);
  jobs.checkClosed();
  void jobs.drained();
  record((atMs) => atMs >= toMs);
  return jobs;
}

class Outage {
  readonly #group: ProcessGroup;
  readonly #params: OutageParams;
  /** Counts only: events of several processes arrive in any order. */
  readonly #counter = new WaitingJobs(() => 0);
  /** Set when the kernel is back. */
  times: OutageTimes | null = null;

  constructor(group: ProcessGroup, params: OutageParams) {
    this.#group = group;
    this.#params = params;
    group.onEvent((event) => this.#counter.record(event as JobObservation));
  }

  async run(): Promise<void> {
    const { outageMs, waitedMs, contenders } = this.#params;
    const address = String(await this.#kernel({ do: "serve" }));
    await this.#replicas(() => ({ do: "open", address }));
    await this.#replicas(() => ({ do: "submit", jobs: WARM_UP_JOBS, atMs: 0 }));
    await this.#counter.drained();
    const fromMs = Number(await this.#kernel({ do: "stop" }));
    const loadMs = fromMs + Math.max(0, outageMs - waitedMs);
    const shares = evenShares(contenders, this.#group.size - 1);
    const sent = this.#replicas((index) => ({ do: "submit", jobs: shares[index] ?? 0, atMs: loadMs }));
    const [toMs] = await Promise.all([this.#kernel({ do: "return", atMs: fromMs + outageMs }), sent]);
    this.times = { fromMs, loadMs, toMs: Number(toMs) };
    await this.#counter.drained();
  }

  async reports(): Promise<readonly ReplicaReport[]> {
    return (await this.#replicas(() => ({ do: "report" }))) as readonly ReplicaReport[];
  }

  #kernel(command: KernelCommand): Promise<unknown> {
    return this.#group.request(this.#group.size - 1, command);
  }

  #replicas(command: (index: number) => ReplicaCommand): Promise<readonly unknown[]> {
    const replicas = Array.from({ length: this.#group.size - 1 }, (_, index) => index);
    return Promise.all(replicas.map((index) => this.#group.request(index, command(index))));
  }
}

/** The caller waited until its timeout. A kernel that is down fails a check at once. */
function isTimedOut({ tookMs, isDecided }: CheckObservation, timeoutMs: number): boolean {
  return tookMs !== null && !isDecided && tookMs >= TIMED_OUT_SHARE * timeoutMs;
}

export async function startLiveProcess(
  context: ProcessContext,
  request: LiveRowRequest<OutageParams>,
): Promise<LabProcess> {
  const { params } = request;
  return context.index === params.replicas ? kernelProcess(context, params) : replicaProcess(context, request);
}

/** Adds the service time to each check by blocking the process. */
class SlowKernel extends LiveKernel {
  readonly #serviceMs: number;

  constructor(serviceMs: number) {
    super(builtInKernel().inForce);
    this.#serviceMs = serviceMs;
  }

  override decide(request: PolicyRequest) {
    // Sleeping makes it a serial server without using CPU time.
    if (this.#serviceMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, this.#serviceMs);
    return super.decide(request);
  }
}

function kernelProcess(context: ProcessContext, { kernelMs }: OutageParams): LabProcess {
  const kernel = new SlowKernel(kernelMs);
  let server: SafetyServer | null = null;
  let port = 0;
  const serve = async (): Promise<string> => {
    server = await startSafetyServer({ kernel, log: SILENT, host: "127.0.0.1", port, stopMsMax: STOP_MS_MAX });
    port = Number(server.address.split(":").at(-1));
    return server.address;
  };
  const stop = async (): Promise<void> => {
    await server?.stop();
    server = null;
  };
  return {
    handle: async (message) => {
      const command = message as KernelCommand;
      switch (command.do) {
        case "serve":
          return serve();
        case "stop":
          await stop();
          return context.nowMs();
        case "return": {
          await pauseUntil(context, command.atMs);
          const backMs = context.nowMs();
          await serve();
          return backMs;
        }
        default:
          return command satisfies never;
      }
    },
    close: stop,
  };
}

function replicaProcess(context: ProcessContext, { key }: LiveRowRequest<OutageParams>): LabProcess {
  const settings = settingsOf({ policy: String(key.policy), hasBreaker: key.breaker === "on" });
  const recorder = new ReplicaRecorder(context);
  let control: Control | null = null;
  let submit: () => Promise<unknown> = () => Promise.reject(new Error("the control plane is not open yet"));
  let closeConnection = (): void => undefined;
  const open = async (address: string): Promise<void> => {
    const connection = openGrpcSafety({ address, timeoutMs: () => settings.safety.timeoutMs });
    closeConnection = connection.close;
    const world = await context.openWorld({ settings, safety: recorder.aroundSafety(connection.safety) });
    const engine = openEngine(recorder.around(world), { current: settings });
    // One worker accepts every job.
    if (context.index === 0) await world.bus.serve(workSubject(TOPIC), () => undefined);
    control = await startControl(engine);
    submit = () => admitJob(engine, SUBMISSION);
  };
  return {
    handle: async (message) => {
      const command = message as ReplicaCommand;
      switch (command.do) {
        case "open":
          return open(command.address);
        case "submit":
          await pauseUntil(context, command.atMs);
          return void (await Promise.all(Array.from({ length: command.jobs }, submit)));
        case "report":
          return recorder.report();
        default:
          return command satisfies never;
      }
    },
    close: async () => {
      await control?.stop();
      closeConnection();
    },
  };
}

class ReplicaRecorder {
  readonly #context: ProcessContext;
  readonly #known = new Set<string>();
  readonly #jobs: JobObservation[] = [];
  readonly #checks: { readonly atMs: number; tookMs: number | null; isDecided: boolean }[] = [];
  readonly #failuresMs: number[] = [];

  constructor(context: ProcessContext) {
    this.#context = context;
  }

  report(): ReplicaReport {
    return { jobs: this.#jobs, checks: this.#checks, failuresMs: this.#failuresMs };
  }

  /** Records checks at the caller, because a kernel that is down or busy cannot. */
  aroundSafety(safety: Safety): Safety {
    return {
      local: null,
      check: async (request) => {
        const check = { atMs: this.#context.nowMs(), tookMs: null as number | null, isDecided: false };
        this.#checks.push(check);
        const checked = await safety.check(request);
        check.tookMs = this.#context.nowMs() - check.atMs;
        check.isDecided = checked.kind === "decided";
        return checked;
      },
    };
  }

  around(world: World): World {
    const { metrics } = world;
    const add: typeof metrics.add = (name, labels, amount) => {
      if (name === "cordum_scheduler_safety_unavailable_total") this.#failuresMs.push(this.#context.nowMs());
      metrics.add(name, labels, amount);
    };
    const recorded = withStore((store) => ({
      commit: async (change) => {
        const committed = await store.commit(change);
        if (committed.kind === "committed") {
          for (const { table, value } of change.puts) if (table === JOBS.name && value) this.#record(value as Job);
        }
        return committed;
      },
    }));
    return recorded({ ...world, metrics: around(metrics, { add }) });
  }

  #record({ id, state }: Job): void {
    const observation = { atMs: this.#context.nowMs(), id, state };
    const isEvent = state !== "PENDING" || !this.#known.has(id);
    this.#known.add(id);
    this.#jobs.push(observation);
    if (isEvent) this.#context.emit(observation);
  }
}

/** Per control plane, before the outage, so that connections exist when it starts. */
const WARM_UP_JOBS = 5;
const TIMED_OUT_SHARE = 0.9;
/** Checks in flight are dropped when the kernel stops. */
const STOP_MS_MAX = 50;
const SILENT = { write: () => undefined };
