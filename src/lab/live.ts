/**
 * Live runs: an experiment with real processes on a real target, next to its simulation.
 *
 * 1. `plan` gives the live run and the simulation the same parameters, with the latency measured on the target.
 * 2. Each live row has its own processes and its own namespace (the prefix `cordum-lab-…` of every key and subject), which
 *    is deleted with the row.
 * 3. A row that exceeds the time limit is reported as unfinished, and its figures are not compared.
 *
 * An experiment supports live runs with `live` in its spec. `runRow` runs in the command, `startProcess` in each process.
 * They exchange requests, responses and events as JSON. Both are imported on first use.
 */

import type { Settings } from "../core/settings.ts";
import type { Message } from "../ports/bus.ts";
import type { Safety } from "../ports/safety.ts";
import type { World } from "../ports/world.ts";
import type { Figures, Row, RowKey } from "./experiment.ts";
import type { ParamTable, ParamValue, ValuesOf } from "./params.ts";
import type { Column } from "./report/tables.ts";
import { rounded } from "./statistics.ts";

export interface LiveSpec<Table extends ParamTable> {
  /** The compared figures. The first one decides the order of rows. */
  readonly compared: readonly Column[];
  /** Parameters measured on the target. Their flags are rejected together with `--live`. */
  readonly measuredParams: readonly (keyof Table & string)[];
  /** The parameters of both runs. Throws with the flag and the accepted value when a live run is not possible. */
  plan(params: ValuesOf<Table>, conditions: LiveConditions): LivePlan<ValuesOf<Table>>;
  /** Default number of runs per row; the median run is reported. One stall of the machine doubles a short row. */
  readonly times?: number;
  /** A small row that runs live first and calibrates the simulation. Without it, the latency is half of a ping. */
  readonly calibration?: Calibration<ValuesOf<Table>>;
  /** The keys of the live rows, equal to those of the simulation. */
  keys(params: ValuesOf<Table>): readonly RowKey[];
  /** Runs one row: instructs the processes and computes figures from their observations. */
  runRow(group: ProcessGroup, request: LiveRowRequest<ValuesOf<Table>>, timeUp: Promise<void>): Promise<LiveFigures>;
  /** Starts the row's part inside one process. */
  startProcess(context: ProcessContext, request: LiveRowRequest<ValuesOf<Table>>): Promise<LabProcess>;
}

export interface Calibration<Values> {
  /** Measures the figure `nak_look_ms` of the broker, once, before the row. */
  measureBroker(group: ProcessGroup): Promise<LiveFigures>;
  readonly key: RowKey;
  /** For the report: "40 queued results". */
  readonly label: string;
  params(planned: Values): Values;
  /** The figure to match. It grows with the latency. */
  readonly figure: string;
  /** Default number of runs; the median run is used. */
  readonly times: number;
}

export interface LiveConditions {
  /** `--processes`; null for the default of the experiment. */
  readonly processes: number | null;
  /** 1 where the target is limited to one process. */
  readonly processesMax: number;
  /** One-way latency to the store. */
  readonly latencyMs: number;
  /** Standard deviation of the latency as a share of it, at most 1. */
  readonly latencySpread: number;
  /** Busy time of a thread per step; 0 where it was not measured. */
  readonly stepMs: number;
  /** The redelivery timer of the broker, restarted by every nak; 0: one timer per message. */
  readonly nakLookMs: number;
  /** Names of the parameters given on the command line. */
  readonly givenParams: ReadonlySet<string>;
}

export interface LivePlan<Values> {
  readonly params: Values;
  readonly processes: number;
}

export interface LiveRowRequest<Values = Readonly<Record<string, ParamValue>>> {
  readonly key: RowKey;
  readonly params: Values;
}

/** The processes of one row. A request fails when its process ends before it responds. */
export interface ProcessGroup {
  readonly size: number;
  request(index: number, message: unknown): Promise<unknown>;
  requestAll(message: unknown): Promise<readonly unknown[]>;
  onEvent(listener: (event: unknown, index: number) => void): void;
}

/** The part of an experiment in one process. */
export interface LabProcess {
  handle(message: unknown): Promise<unknown>;
  /** Called before the world is closed. */
  close(): Promise<void>;
}

export interface ProcessContext {
  /** From 0. */
  readonly index: number;
  /** Opens the target as `cordum up` does, in the namespace of the row. The caller of `startProcess` closes it. */
  openWorld(parts: { readonly settings: Settings; readonly safety: Safety }): Promise<World>;
  /** Publishes as an external worker does: one write per message. */
  publish(messages: readonly Message[]): Promise<void>;
  /** Fractional milliseconds of a clock that all processes of the machine share. */
  nowMs(): number;
  /** Accurate to a fraction of a millisecond, unlike a timer. */
  pause(delayMs: number): Promise<void>;
  /** Busy time of this thread so far, without the time spent in `pause`. */
  busyMs(): number;
  emit(event: unknown): void;
}

export interface LiveFigures extends Omit<Row, "key" | "steps"> {
  readonly isFinished: boolean;
  /** Busy time of the threads of all processes, for the calibration. */
  readonly busyMs?: number;
}

export interface LiveRow extends LiveFigures {
  readonly key: RowKey;
}

export interface LiveOutcome {
  /** `nats 2.10.22 and redis 7.2.4`. */
  readonly on: string;
  readonly processes: number;
  readonly secondsMax: number;
  /** Runs per row. */
  readonly times: number;
  readonly cores: number;
  /** Load average of the machine before the run. */
  readonly load: number;
  /** Round trip to the store and to the bus; null without a network bus. */
  readonly pingMs: number;
  readonly busPingMs: number | null;
  /** The latency of the simulation; null where the experiment defines the network. */
  readonly latencyMs: number | null;
  /** The label of the calibration row; null: the latency is half of a ping. */
  readonly calibratedBy: string | null;
  readonly stepMs: number;
  readonly nakLookMs: number;
  readonly compared: readonly Column[];
  readonly rows: readonly LiveRow[];
}

export function roundFigures(figures: Figures): Figures {
  return Object.fromEntries(
    Object.entries(figures).map(([name, value]): [string, number | null | Figures] => {
      if (typeof value === "number") return [name, rounded(value)];
      return [name, value === null ? null : roundFigures(value)];
    }),
  );
}

/** Resolves with false when `timeUp` resolves before the work. */
export const isDoneInTime = (work: Promise<unknown>, timeUp: Promise<void>): Promise<boolean> =>
  Promise.race([work.then(() => true), timeUp.then(() => false)]);

export const pauseUntil = (context: ProcessContext, atMs: number): Promise<void> =>
  context.pause(Math.max(0, atMs - context.nowMs()));

/** Throws when a parameter is too large for a live run. */
export function limitLive(flag: string, value: number, max: number): void {
  if (value > max) throw new Error(`${flag} ${value}: give ${max} at most with --live`);
}

export const simulatedOnly = (flag: string, value: string, instead: string): Error =>
  new Error(`${flag} \`${value}\` is simulated only: give ${instead} with --live`);

/** Time between a request to start at an instant and that instant, so that it reaches every process before. */
export const START_DELAY_MS = 100;
export const PROCESSES_MAX = 16;
