/**
 * An experiment with real processes on a real target, beside the same experiment under virtual time.
 *
 * 1. The simulation is asked for what live can do: `plan` gives both the same params, with the latency of the target.
 * 2. A row of live has processes and a space of its own (`cordum-lab-…` before every key and subject); nothing that it
 *    makes outlives it.
 * 3. A row that is not done in time is said to be unfinished. What it had measured until then is no figure to compare.
 *
 * To add it to an experiment: `live` in its spec. `conduct` runs in the command, `join` in each process; they exchange
 * questions, answers and news, which are plain JSON. Both are loaded only when they are used.
 */

import type { Settings } from "../core/settings.ts";
import type { Message } from "../ports/bus.ts";
import type { Safety } from "../ports/safety.ts";
import type { World } from "../ports/world.ts";
import type { Figures, Row } from "./experiment.ts";
import type { ParamTable, ParamValue, ValuesOf } from "./params.ts";
import type { Column } from "./report/tables.ts";
import { rounded } from "./statistics.ts";

export interface LiveSpec<Table extends ParamTable> {
  /** What is set side by side; rows are compared in their order by the first. */
  readonly compared: readonly Column[];
  /** Params that the target decides: they cannot be typed together with `--live`. */
  readonly measuredParams: readonly (keyof Table & string)[];
  /** What both are run with. Throws, with the flag and what to give instead, when it is too much or cannot be done. */
  plan(params: ValuesOf<Table>, given: LiveConditions): LivePlan<ValuesOf<Table>>;
  /** How often a row is run unless told; the middle one counts. A short one is half of it if the machine stands still once. */
  readonly times?: number;
  /**
   * A small row that is run live before all others, to find out how long a process is busy with a step, and the latency to
   * simulate with; without, it is half of a ping.
   */
  readonly calibration?: Calibration<ValuesOf<Table>>;
  /** The rows, as the simulation names them. One without is not run live, and is shown as simulated only. */
  keys(params: ValuesOf<Table>): readonly Row["key"][];
  /** One row, from the outside: says what to do and when, and makes figures of what the processes saw. */
  runRow(crew: ProcessGroup, order: LiveRowRequest<ValuesOf<Table>>, timeUp: Promise<void>): Promise<LiveFigures>;
  /** One row, from the inside of one process. */
  startProcess(place: ProcessContext, order: LiveRowRequest<ValuesOf<Table>>): Promise<LabProcess>;
}

export interface Calibration<Values> {
  /** What is to be known of the target besides: gives the figure `nak_look_ms`. Run once, before the row. */
  measureBroker(crew: ProcessGroup): Promise<LiveFigures>;
  readonly key: Row["key"];
  /** What it is in words: "40 results in the queue". */
  readonly label: string;
  params(planned: Values): Values;
  /** The figure that is to be the same; it grows with the latency. */
  readonly figure: string;
  /** How often it is run unless told; the middle one counts, and all predictions depend on it. */
  readonly times: number;
}

export interface LiveConditions {
  /** As typed; null for as many as the experiment likes. */
  readonly processes: number | null;
  /** 1 where the world belongs to one process. */
  readonly processesMax: number;
  /** One way to the store of the target. */
  readonly latencyMs: number;
  /** How uneven that is: its standard deviation as a share of it, 1 at most. */
  readonly latencySpread: number;
  /** How long the thread of a process is busy each time that its code runs; 0 where that was not measured. */
  readonly stepMs: number;
  /** How long after the last of the retries that it was handed the broker looks which are due; 0: each has its own timer. */
  readonly nakLookMs: number;
  /** The params that somebody typed, whatever their values. */
  readonly givenParams: ReadonlySet<string>;
}

export interface LivePlan<Values> {
  readonly params: Values;
  readonly processes: number;
}

export interface LiveRowRequest<Values = Readonly<Record<string, ParamValue>>> {
  readonly key: Row["key"];
  readonly params: Values;
}

/** The processes of one row. Whatever is asked fails when the process ends before it has answered. */
export interface ProcessGroup {
  readonly size: number;
  request(index: number, question: unknown): Promise<unknown>;
  requestAll(question: unknown): Promise<readonly unknown[]>;
  /** What processes say unasked. */
  onEvent(fn: (news: unknown, index: number) => void): void;
}

/** What an experiment does in a process. */
export interface LabProcess {
  handle(question: unknown): Promise<unknown>;
  /** Before the world is closed. */
  close(): Promise<void>;
}

/** What a process has to stand on. */
export interface ProcessContext {
  /** From 0. */
  readonly index: number;
  /** The target as `cordum up` opens it, in the space of the row. Closed by whoever gave it. */
  openWorld(given: { readonly settings: Settings; readonly safety: Safety }): Promise<World>;
  /** Publishes as a worker of others does: a message of its own for each, whatever else is on its way. */
  publish(messages: readonly Message[]): Promise<void>;
  /** With fractions, and the same in all processes of this machine. */
  nowMs(): number;
  /** To a fraction of a millisecond; a timer would be late by one. */
  pause(delayMs: number): Promise<void>;
  /** How long the thread of this process has been busy so far; with what it had to do, not with waiting for `pause`. */
  busyMs(): number;
  emit(news: unknown): void;
}

export interface LiveFigures extends Omit<Row, "key" | "steps"> {
  readonly isFinished: boolean;
  /** How long the threads of all processes were busy meanwhile, where the experiment's tuning asks. */
  readonly busyMs?: number;
}

export interface LiveRow extends LiveFigures {
  readonly key: Row["key"];
}

/** Everything live, as it is shown. */
export interface LiveOutcome {
  /** `nats 2.10.22 and redis 7.2.4`. */
  readonly on: string;
  readonly processes: number;
  readonly secondsMax: number;
  /** How often each row was run. */
  readonly times: number;
  /** Of the machine that the processes ran on, and what it had to do before they did. */
  readonly cores: number;
  readonly load: number;
  /** There and back, to the store and to the bus; null where there is no way. */
  readonly pingMs: number;
  readonly busPingMs: number | null;
  /** What was simulated with; null where the network is the model's own. */
  readonly latencyMs: number | null;
  /** What that latency was found with; null: half of the ping. */
  readonly calibratedBy: string | null;
  readonly stepMs: number;
  readonly nakLookMs: number;
  readonly compared: readonly Column[];
  readonly rows: readonly LiveRow[];
}

/** Figures of a clock have more digits than they have meaning. */
export function roundFigures(figures: Figures): Figures {
  return Object.fromEntries(
    Object.entries(figures).map(([name, value]): [string, number | null | Figures] => {
      if (typeof value === "number") return [name, rounded(value)];
      return [name, value === null ? null : roundFigures(value)];
    }),
  );
}

/** No experiment takes more: this is somebody's machine. */
export const PROCESSES_MAX = 16;
