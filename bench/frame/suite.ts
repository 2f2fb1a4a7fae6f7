import type { Children } from "./children.ts";
import type { Series } from "./series.ts";

export interface Suite {
  readonly title: string;
  /** Explanations above the table. */
  readonly notes: readonly string[];
  readonly columns: readonly Column[];
  run(bench: Bench): Promise<SuiteOutcome>;
}

export interface Column {
  readonly key: string;
  readonly title: string;
  readonly digits: number;
}

export interface Bench {
  readonly children: Children;
  readonly rounds: number;
  readonly isQuick: boolean;
  logProgress(line: string): void;
}

export interface SuiteOutcome {
  readonly series: Series;
  readonly targets: readonly Target[];
  /** Lost or duplicate jobs, locks with two holders. The benchmark then exits with 1. */
  readonly faults: readonly string[];
  /** Peers that were not measured. */
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
