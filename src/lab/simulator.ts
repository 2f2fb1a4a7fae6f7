/** One seed of the simulator as data: its history, and the invariants that were violated. */
import { CHECKERS } from "../sim/checks/violations.ts";
import { FAULT_PROFILES } from "../sim/faults.ts";
import { MUTANTS, mutantNamed } from "../sim/mutants/registry.ts";
import { simulate } from "../sim/simulate.ts";
import type { Rejected } from "./requests.ts";
import { rounded } from "./statistics.ts";

export interface PlayRequest {
  readonly seed: number;
  readonly runs: number;
  readonly faults: string;
  readonly mutant: string | null;
}

export interface Played {
  readonly hash: string;
  /** The CLI command with the same history. */
  readonly command: string;
  /** Of the simulation; the trace has those that concern a record, a lock, a message or a process. */
  readonly events: number;
  readonly virtual_ms: number;
  readonly crashes: number;
  readonly jobs: Readonly<Record<string, number>>;
  readonly runs: Readonly<Record<string, number>>;
  readonly violations: readonly PlayedViolation[];
  readonly trace_total: number;
  /** From the first entry on, at most `TRACE_MAX`. */
  readonly trace: readonly PlayedEntry[];
}

export interface PlayedViolation {
  readonly checker: string;
  readonly invariant: string;
  readonly id: string;
  readonly hint: string;
  readonly at_ms: number;
}

export interface PlayedEntry {
  readonly at_ms: number;
  readonly source: string;
  readonly action: string;
  readonly subject: string;
}

export async function play(request: PlayRequest, traceMax = TRACE_MAX): Promise<Played | Rejected> {
  const { seed, runs, faults: profile, mutant: name } = request;
  const faults = FAULT_PROFILES.find((known) => known === profile);
  if (faults === undefined) return rejected("faults", `\`${profile}\`: choose one of ${FAULT_PROFILES.join(", ")}`);
  const mutant = name === null ? null : mutantNamed(name);
  if (mutant === undefined) return rejected("mutant", `no mutant \`${name}\``);
  const report = await withoutStacks(() => simulate({ seed, runs, faults, mutant, keepsTrace: true }));
  const flags = mutant === null ? "" : ` --mutant ${mutant.name}`;
  return {
    hash: report.hash,
    command: `cordum sim --seed ${seed} --runs ${runs} --faults ${faults}${flags}`,
    events: report.events,
    virtual_ms: rounded(report.virtualMs),
    crashes: report.crashes,
    jobs: report.jobs,
    runs: report.runs,
    violations: report.violations.map(({ checker, id, hint, atMs }) => ({
      ...{ checker, invariant: CHECKERS[checker], id, hint, at_ms: atMs },
    })),
    trace_total: report.trace.length,
    trace: report.trace.slice(0, traceMax).map(({ atMs, ...entry }) => ({ at_ms: rounded(atMs), ...entry })),
  };
}

/** Runs throw thousands of expected errors. */
async function withoutStacks<T>(work: () => Promise<T>): Promise<T> {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return await work();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const rejected = (param: string, detail: string): Rejected => ({ kind: "rejected", param, detail });

export const SIMULATOR_VIEW = {
  faults: FAULT_PROFILES,
  mutants: MUTANTS.map(({ name, about, caughtBy }) => ({ name, about, caught_by: caughtBy })),
};

const TRACE_MAX = 10_000;
