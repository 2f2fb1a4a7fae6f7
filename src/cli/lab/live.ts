/**
 * `--live`: runs the rows of an experiment with real processes, one at a time.
 *
 * 1. A row is limited to `--live-seconds`, plus time for the processes to report.
 * 2. After every row, also after Ctrl-C, its processes are stopped and its namespace is removed. Leftovers are named.
 */
import { availableParallelism, loadavg } from "node:os";
import { calibrate } from "../../lab/calibration.ts";
import type { Experiment, Outcome } from "../../lab/experiment.ts";
import {
  type LiveFigures,
  type LiveOutcome,
  type LiveRow,
  type LiveRowRequest,
  type LiveSpec,
  PROCESSES_MAX,
  type ProcessGroup,
  roundFigures,
} from "../../lab/live.ts";
import { medianRun } from "../../lab/live-compare.ts";
import type { ParamTable, ParamValue } from "../../lab/params.ts";
import { rounded } from "../../lab/statistics.ts";
import { CliError, EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import {
  createNamespace,
  describeLeftovers,
  measureTarget,
  type Namespace,
  namespaceName,
  removeNamespace,
  type TargetMeasurement,
} from "./live-namespace.ts";
import type { LiveRequest } from "./live-options.ts";
import { ChildProcessGroup } from "./live-processes.ts";

type Params = Readonly<Record<string, ParamValue>>;

/** Parameters of both the simulation and the live run. */
export interface LivePlan {
  readonly params: Params;
  readonly processes: number;
  readonly survey: TargetMeasurement;
  readonly latencyMs: number | null;
  readonly tunedBy: string | null;
  readonly stepMs: number;
  readonly nakLookMs: number;
  /** Load average before the run. */
  readonly load: number;
}

export interface ExperimentInput {
  readonly params: Params;
  readonly typed: ReadonlySet<string>;
}

export async function planLive(io: Io, one: Experiment, ask: ExperimentInput, request: LiveRequest): Promise<LivePlan> {
  const next = `cordum lab ${one.name} --help`;
  const found = await measureTarget(request.target).catch((error: unknown) => {
    throw new CliError(EXIT.unavailable, messageOf(error), next);
  });
  const { meanMs, spread } = found.ping;
  // The sum of two independent one-way delays has a smaller relative spread than each of them.
  const pingSpread = Math.min(1, rounded(Math.SQRT2 * spread));
  const processesMax = request.target.kind === "embedded" ? 1 : PROCESSES_MAX;
  const load = rounded(loadavg()[0] ?? 0);
  const { measuredParams: decided, plan } = specOf(one);
  const planned = ({ latencyMs, stepMs, nakLookMs, tunedBy }: Calibrated): LivePlan => {
    // Queueing delay has a spread near 1.
    const latencySpread = tunedBy === null ? pingSpread : 1;
    const measured = { latencyMs, latencySpread, stepMs, nakLookMs };
    const given = { processes: request.processes, processesMax, ...measured, givenParams: ask.typed };
    const facts = { latencyMs: decided.includes("latencyMs") ? latencyMs : null, stepMs, nakLookMs, tunedBy };
    return { ...plan(ask.params, given), survey: found, ...facts, load };
  };
  try {
    return await tuned(io, one, { request, planned, pingedMs: Math.max(LATENCY_MS_MIN, rounded(meanMs / 2)) });
  } catch (error) {
    throw error instanceof CliError ? error : new CliError(EXIT.usage, messageOf(error), next);
  }
}

interface Calibrated {
  readonly latencyMs: number;
  readonly stepMs: number;
  readonly nakLookMs: number;
  readonly tunedBy: string | null;
}

interface CalibrationInput {
  readonly request: LiveRequest;
  readonly pingedMs: number;
  planned(calibratedPlan: Calibrated): LivePlan;
}

/** Chooses the latency with which the simulated calibration row takes as long as the live one. */
async function tuned(io: Io, one: Experiment, { request, planned, pingedMs }: CalibrationInput): Promise<LivePlan> {
  const { calibration: tuning } = specOf(one);
  const pinged: Calibrated = { latencyMs: pingedMs, stepMs: 0, nakLookMs: 0, tunedBy: null };
  const first = planned(pinged);
  if (tuning === undefined) return first;
  const { key, figure, label: what, times } = tuning;
  const order: LiveRowRequest = { key, params: tuning.params(first.params) };
  const signals = new Signals();
  const run = (change: Pick<RowRequest, "times" | "conduct">, name: string): Promise<LiveFigures> =>
    runTimes(io, one, { request, plan: first, order, ...change }, `${namespaceName()}_${name}`, signals.stopped);
  try {
    const surveyed = await run({ times: 1, conduct: tuning.measureBroker }, "s");
    const nakLookMs = rounded(Number(surveyed.figures.nak_look_ms ?? 0));
    const { figures, isFinished, busyMs = 0 } = await run({ times: request.times ?? times }, "0");
    const tookMs = figures[figure];
    if (!isFinished || typeof tookMs !== "number") return planned({ ...pinged, nakLookMs });
    const found = await calibrate({ tookMs, busyMs, pingedMs }, async (tried) => {
      const { params } = planned({ ...tried, nakLookMs, tunedBy: what });
      const [row] = await one.runSeed(1, tuning.params(params), () => undefined);
      return { tookMs: Number(row?.figures[figure]), steps: row?.steps ?? 0 };
    });
    return planned({ ...found, nakLookMs, tunedBy: what });
  } finally {
    signals.release();
  }
}

export interface LiveRun {
  readonly request: LiveRequest;
  readonly plan: LivePlan;
  note(done: number, of: number, name: string): void;
}

/** Adds the live figures to the simulated outcome. */
export async function runLive(io: Io, one: Experiment, outcome: Outcome, run: LiveRun): Promise<Outcome> {
  const { request, plan } = run;
  const spec = specOf(one);
  const keys = spec.keys(plan.params);
  const signals = new Signals();
  const rows: LiveRow[] = [];
  try {
    const base = namespaceName();
    for (const [index, key] of keys.entries()) {
      run.note(index, keys.length, Object.values(key).join(" "));
      const row = { request, plan, order: { key, params: plan.params }, times: timesOf(one, request) };
      const { figures, busyMs: _, ...seen } = await runTimes(io, one, row, `${base}_${index + 1}`, signals.stopped);
      rows.push({ key, ...seen, figures: roundFigures(figures) });
    }
  } finally {
    signals.release();
  }
  const { on, ping, busPing } = plan.survey;
  const { processes, latencyMs, tunedBy, stepMs, nakLookMs, load } = plan;
  const live: LiveOutcome = {
    ...{
      on,
      processes,
      secondsMax: request.secondsMax,
      times: timesOf(one, request),
      cores: availableParallelism(),
      load,
    },
    ...{ pingMs: rounded(ping.meanMs), busPingMs: busPing && rounded(busPing.meanMs) },
    ...{ latencyMs, calibratedBy: tunedBy, stepMs, nakLookMs, compared: spec.compared, rows },
  };
  return { ...outcome, live };
}

/** Every repetition has its own processes and namespace. */
async function runTimes(
  io: Io,
  one: Experiment,
  row: RowRequest,
  spaceName: string,
  stopped: Promise<never>,
): Promise<LiveFigures> {
  const runs: LiveFigures[] = [];
  while (runs.length < row.times)
    runs.push(await new RowRun(io, one, row, `${spaceName}-${runs.length + 1}`).run(stopped));
  return medianRun(runs, specOf(one).compared[0]?.path ?? "") ?? NOTHING;
}

const timesOf = (one: Experiment, { times }: LiveRequest): number => times ?? specOf(one).times ?? 1;

interface RowRequest {
  readonly request: LiveRequest;
  readonly plan: LivePlan;
  readonly order: LiveRowRequest;
  readonly times: number;
  /** Overrides the row of the experiment. */
  readonly conduct?: (crew: ProcessGroup) => Promise<LiveFigures>;
}

class RowRun {
  readonly #one: Experiment;
  readonly #row: RowRequest;
  readonly #space: Namespace;
  readonly #crew: ChildProcessGroup;
  readonly #timers = new Timers();

  constructor(io: Io, one: Experiment, row: RowRequest, spaceName: string) {
    if (io.executable === undefined) throw new Error("the command line of this program is unknown");
    this.#one = one;
    this.#row = row;
    this.#space = createNamespace(row.request.target, spaceName);
    const { processes } = row.plan;
    const crew = { program: io.executable, experiment: one.name, processes, space: this.#space, order: row.order };
    this.#crew = new ChildProcessGroup(crew);
  }

  /** (2) */
  async run(stopped: Promise<never>): Promise<LiveFigures> {
    let failure: unknown = null;
    let figures: LiveFigures = NOTHING;
    try {
      figures = await Promise.race([this.#measured(), this.#crew.lost, stopped]);
    } catch (error) {
      failure = error;
    }
    this.#timers.clear();
    await this.#crew.stop();
    await removeNamespace(this.#space).catch((error: unknown) => {
      const before = failure === null ? "" : `${messageOf(failure)}; also, `;
      const left = `${before}cleanup failed (${messageOf(error)}); remove by hand: ${describeLeftovers(this.#space)}`;
      throw new CliError(EXIT.error, left, null);
    });
    if (failure === null) return figures;
    if (failure instanceof CliError) throw failure;
    throw new CliError(EXIT.error, `${messageOf(failure)}; its data was removed`, null);
  }

  async #measured(): Promise<LiveFigures> {
    const late = this.#timers.after(JOIN_MS_MAX).then(() => {
      throw new Error(`the processes were not ready within ${JOIN_MS_MAX / 1_000} s`);
    });
    await Promise.race([this.#crew.joined(), late]);
    const { order, request, conduct } = this.#row;
    const timeUp = this.#timers.after(request.secondsMax * 1_000);
    const conducted = conduct?.(this.#crew) ?? specOf(this.#one).runRow(this.#crew, order, timeUp);
    const overdue = this.#timers.after(request.secondsMax * 1_000 + REPORT_MS_MAX).then(() => NOTHING);
    return Promise.race([conducted, overdue]);
  }
}

const NOTHING: LiveFigures = { figures: {}, isFinished: false };
const JOIN_MS_MAX = 60_000;
/** Time for the processes to report after the time limit. */
const REPORT_MS_MAX = 10_000;
const LATENCY_MS_MIN = 0.001;

class Timers {
  readonly #timers: NodeJS.Timeout[] = [];

  after(delayMs: number): Promise<void> {
    return new Promise((resolve) => this.#timers.push(setTimeout(resolve, delayMs)));
  }

  clear(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }
}

/** Turns signals into a rejection, so that the cleanup runs. */
class Signals {
  readonly stopped: Promise<never>;
  readonly #listeners: [NodeJS.Signals, () => void][] = [];

  constructor() {
    this.stopped = new Promise<never>((_, reject) => {
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
        const listener = (): void => reject(new Error(`stopped by ${signal}`));
        process.on(signal, listener);
        this.#listeners.push([signal, listener]);
      }
    });
    this.stopped.catch(() => undefined);
  }

  release(): void {
    for (const [signal, listener] of this.#listeners) process.off(signal, listener);
  }
}

function specOf({ name, live }: Experiment): LiveSpec<ParamTable> {
  if (live === undefined) throw new Error(`\`${name}\` has no live mode`);
  return live;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
