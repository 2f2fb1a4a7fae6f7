/**
 * `--live` of an experiment: the rows of an experiment with real processes, one row after the other.
 *
 * 1. It ends by itself: a row has `--live-seconds`, and a little more for its processes to say what they saw.
 * 2. Whatever happens, also Ctrl-C, the processes of a row are gone and its space is swept before anything else is done.
 *    What could not be removed is named.
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
import { ProcessCrew } from "./lab-live-crew.ts";
import { newSpace, newSpaceName, remainsOf, type Space, type Survey, survey, sweep } from "./lab-live-space.ts";
import type { LiveWish } from "./lab-live-target.ts";

type Params = Readonly<Record<string, ParamValue>>;

/** What both the simulation and the live run are run with. */
export interface PlannedLive {
  readonly params: Params;
  readonly processes: number;
  readonly survey: Survey;
  readonly latencyMs: number | null;
  readonly tunedBy: string | null;
  readonly stepMs: number;
  readonly nakLookMs: number;
  /** What the machine had to do before anything was run. */
  readonly load: number;
}

/** As it was read, and which of it somebody typed. */
export interface LiveAsk {
  readonly params: Params;
  readonly typed: ReadonlySet<string>;
}

export async function planLive(io: Io, one: Experiment, ask: LiveAsk, request: LiveWish): Promise<PlannedLive> {
  const next = `cordum lab ${one.name} --help`;
  const found = await survey(request.target).catch((error: unknown) => {
    throw new CliError(EXIT.unavailable, messageOf(error), next);
  });
  const { meanMs, spread } = found.ping;
  // Two ways that have nothing to do with each other are steadier together than each of them.
  const pingSpread = Math.min(1, rounded(Math.SQRT2 * spread));
  const processesMax = request.target.kind === "embedded" ? 1 : PROCESSES_MAX;
  const load = rounded(loadavg()[0] ?? 0);
  const { measuredParams: decided, plan } = specOf(one);
  const planned = ({ latencyMs, stepMs, nakLookMs, tunedBy }: Tuned): PlannedLive => {
    // Waiting for others who work is as uneven as it is long.
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

interface Tuned {
  readonly latencyMs: number;
  readonly stepMs: number;
  readonly nakLookMs: number;
  readonly tunedBy: string | null;
}

interface Tuning {
  readonly request: LiveWish;
  readonly pingedMs: number;
  planned(tuned: Tuned): PlannedLive;
}

/** With what the experiment's small row takes as long with as it does live. */
async function tuned(io: Io, one: Experiment, { request, planned, pingedMs }: Tuning): Promise<PlannedLive> {
  const { calibration: tuning } = specOf(one);
  const pinged: Tuned = { latencyMs: pingedMs, stepMs: 0, nakLookMs: 0, tunedBy: null };
  const first = planned(pinged);
  if (tuning === undefined) return first;
  const { key, figure, label: what, times } = tuning;
  const order: LiveRowRequest = { key, params: tuning.params(first.params) };
  const signals = new Signals();
  const run = (change: Pick<RowOrder, "times" | "conduct">, name: string): Promise<LiveFigures> =>
    runTimes(io, one, { request, plan: first, order, ...change }, `${newSpaceName()}_${name}`, signals.stopped);
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
  readonly request: LiveWish;
  readonly plan: PlannedLive;
  note(done: number, of: number, name: string): void;
}

/** Adds what happened live to what was simulated. */
export async function runLive(io: Io, one: Experiment, outcome: Outcome, run: LiveRun): Promise<Outcome> {
  const { request, plan } = run;
  const spec = specOf(one);
  const keys = spec.keys(plan.params);
  const signals = new Signals();
  const rows: LiveRow[] = [];
  try {
    const base = newSpaceName();
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

/** Each time with processes and a space of its own. */
async function runTimes(
  io: Io,
  one: Experiment,
  row: RowOrder,
  spaceName: string,
  stopped: Promise<never>,
): Promise<LiveFigures> {
  const runs: LiveFigures[] = [];
  while (runs.length < row.times)
    runs.push(await new RowRun(io, one, row, `${spaceName}-${runs.length + 1}`).run(stopped));
  return medianRun(runs, specOf(one).compared[0]?.path ?? "") ?? NOTHING;
}

const timesOf = (one: Experiment, { times }: LiveWish): number => times ?? specOf(one).times ?? 1;

interface RowOrder {
  readonly request: LiveWish;
  readonly plan: PlannedLive;
  readonly order: LiveRowRequest;
  readonly times: number;
  /** In place of the experiment's own. */
  readonly conduct?: (crew: ProcessGroup) => Promise<LiveFigures>;
}

class RowRun {
  readonly #one: Experiment;
  readonly #row: RowOrder;
  readonly #space: Space;
  readonly #crew: ProcessCrew;
  readonly #timers = new Timers();

  constructor(io: Io, one: Experiment, row: RowOrder, spaceName: string) {
    if (io.executable === undefined) throw new Error("this program does not know how it was started");
    this.#one = one;
    this.#row = row;
    this.#space = newSpace(row.request.target, spaceName);
    const { processes } = row.plan;
    const crew = { program: io.executable, experiment: one.name, processes, space: this.#space, order: row.order };
    this.#crew = new ProcessCrew(crew);
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
    await sweep(this.#space).catch((error: unknown) => {
      const before = failure === null ? "" : `${messageOf(failure)}; besides, `;
      const left = `${before}not everything could be removed (${messageOf(error)}): ${remainsOf(this.#space)}`;
      throw new CliError(EXIT.error, left, null);
    });
    if (failure === null) return figures;
    if (failure instanceof CliError) throw failure;
    throw new CliError(EXIT.error, `${messageOf(failure)}; what it had made is removed`, null);
  }

  async #measured(): Promise<LiveFigures> {
    const late = this.#timers.after(JOIN_MS_MAX).then(() => {
      throw new Error(`the processes were not ready within ${JOIN_MS_MAX / 1_000} s`);
    });
    await Promise.race([this.#crew.joined(), late]);
    const { order, request, conduct } = this.#row;
    const timeUp = this.#timers.after(request.secondsMax * 1_000);
    const conducted = conduct?.(this.#crew) ?? specOf(this.#one).runRow(this.#crew, order, timeUp);
    const overdue = this.#timers.after(request.secondsMax * 1_000 + SAY_MS_MAX).then(() => NOTHING);
    return Promise.race([conducted, overdue]);
  }
}

const NOTHING: LiveFigures = { figures: {}, isFinished: false };
const JOIN_MS_MAX = 60_000;
/** How long the processes may take to say what they saw, when time is up. */
const SAY_MS_MAX = 10_000;
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

/** Ctrl-C ends what is under way, in good order. */
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
  if (live === undefined) throw new Error(`\`${name}\` is not run live`);
  return live;
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
