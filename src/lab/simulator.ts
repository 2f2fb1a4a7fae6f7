/** One seed of the simulator as data: its history, and the invariants that were violated. */
import { CHECKERS } from "../sim/checks/violations.ts";
import { FAULT_PROFILES } from "../sim/faults.ts";
import type { LockHold, SentMessage } from "../sim/flows.ts";
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
  /** Sent before the last entry of the trace. */
  readonly messages: readonly PlayedMessage[];
  /** Begun before the last entry of the trace. */
  readonly holds: readonly PlayedHold[];
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

export interface PlayedMessage {
  /** A process; `bus` for a redelivery. */
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly id: string;
  readonly sent_ms: number;
  /** When it was delivered or lost. */
  readonly ended_ms: number | null;
  /** The index of the trace entry that is its delivery. */
  readonly entry: number | null;
  /** Why it was lost. */
  readonly lost: string | null;
}

export interface PlayedHold {
  readonly key: string;
  readonly holder: string;
  readonly fence: number;
  readonly from_ms: number;
  readonly to_ms: number | null;
  readonly expired: boolean;
}

export async function play(request: PlayRequest, traceMax = TRACE_MAX): Promise<Played | Rejected> {
  const { seed, runs, faults: profile, mutant: name } = request;
  const faults = FAULT_PROFILES.find((known) => known === profile);
  if (faults === undefined) return rejected("faults", `\`${profile}\`: choose one of ${FAULT_PROFILES.join(", ")}`);
  const mutant = name === null ? null : mutantNamed(name);
  if (mutant === undefined) return rejected("mutant", `no mutant \`${name}\``);
  const report = await withoutStacks(() => simulate({ seed, runs, faults, mutant, keepsTrace: true }));
  const trace = report.trace.slice(0, traceMax);
  const untilMs = trace.at(-1)?.atMs ?? 0;
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
    trace: trace.map(({ atMs, ...entry }) => ({ at_ms: rounded(atMs), ...entry })),
    messages: report.messages
      .filter(({ sentMs }) => sentMs <= untilMs)
      .map((message) => playedMessage(message, trace.length)),
    holds: report.holds.filter(({ fromMs }) => fromMs <= untilMs).map(playedHold),
  };
}

function playedMessage({ sentMs, endedMs, entry, ...message }: SentMessage, entries: number): PlayedMessage {
  return {
    ...message,
    sent_ms: rounded(sentMs),
    ended_ms: endedMs === null ? null : rounded(endedMs),
    entry: entry === null || entry >= entries ? null : entry,
  };
}

function playedHold({ fromMs, toMs, isExpired, ...hold }: LockHold): PlayedHold {
  return { ...hold, from_ms: rounded(fromMs), to_ms: toMs === null ? null : rounded(toMs), expired: isExpired };
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
