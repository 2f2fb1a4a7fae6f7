import type { Children } from "./children.ts";
import type { Series } from "./series.ts";

/** One benchmark: measures in rounds, and says what its figures mean. */
export interface Suite {
  readonly title: string;
  /** What a reader must know to read the table. */
  readonly notes: readonly string[];
  readonly columns: readonly Column[];
  run(bench: Bench): Promise<SuiteOutcome>;
}

export interface Column {
  readonly key: string;
  readonly title: string;
  readonly digits: number;
}

/** What a suite is given. */
export interface Bench {
  readonly children: Children;
  readonly rounds: number;
  readonly isQuick: boolean;
  /** Progress, for people. */
  say(line: string): void;
}

export interface SuiteOutcome {
  readonly series: Series;
  readonly targets: readonly Target[];
  /** Jobs lost or doubled, locks held by two: the benchmark then fails. */
  readonly faults: readonly string[];
  /** Who was not measured, and why. */
  readonly notRun?: readonly NotRun[];
}

export interface NotRun {
  readonly name: string;
  readonly reason: string;
}

export interface Target {
  readonly text: string;
  readonly value: number;
  readonly isReached: boolean;
}

export const atLeast = (text: string, value: number, limit: number): Target => ({
  text,
  value,
  isReached: value >= limit,
});
export const atMost = (text: string, value: number, limit: number): Target => ({
  text,
  value,
  isReached: value <= limit,
});
