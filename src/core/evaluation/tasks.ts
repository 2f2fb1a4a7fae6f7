/**
 * Evaluation of text that a client sent, as tasks: plain data in, plain data out, so that another thread can run them.
 *
 * 1. Every task is bounded by the limits of its document and by one step budget per request (L60).
 * 2. Invalid text is an answer, not an error. `over` means that the budget was exceeded; there is no answer then.
 */
import type { StoredContention } from "../contention/acquisition.ts";
import { predictStored } from "../contention/predict.ts";
import { BudgetError, StepBudget } from "../expression/budget.ts";
import { compile, type Snapshot } from "../policy/compile.ts";
import type { PolicyRequest } from "../policy/decision.ts";
import { diff, type PolicyDiff } from "../policy/diff.ts";
import { type PolicyDocument, type ReadPolicy, readPolicy } from "../policy/document.ts";
import { type Simulation, simulate, simulationBudget } from "../policy/evaluate.ts";
import { type PolicyCase, readPolicyTests } from "../policy/read-tests.ts";
import { type EvaluatedRecords, evaluateRecords, type RecordedDecision } from "../policy/recorded.ts";
import { type PreparedCase, type TestedCase, testPolicy } from "../policy/test-policy.ts";
import type { ReadYaml } from "../policy/yaml-fields.ts";
import type { RolloutPrediction } from "../rollout/rollout.ts";
import type { RolloutSubject } from "../rollout/subject.ts";
import type { Settings } from "../settings.ts";
import { compileWorkflow } from "../workflow/definition/compile.ts";
import type { Scope } from "../workflow/definition/plan.ts";
import { readWorkflow } from "../workflow/definition/read-workflow.ts";
import { type DryInput, dryInputs } from "../workflow/run/dry-inputs.ts";

type Bad = { readonly kind: "bad"; readonly problems: readonly string[] };

/** YAML or JSON text, or a parsed document. `file` is the name used in problems. */
export type WorkflowSource =
  | { readonly source: { readonly text: string; readonly file: string } }
  | { readonly document: unknown };

export const TASKS = {
  readPolicy: (file: { readonly name: string; readonly text: string }): ReadPolicy => {
    const read = readPolicy(file);
    // Compiled here too, so that only documents within all limits are compiled by the kernel.
    if (read.kind === "ok") compile(read.document);
    return read;
  },

  diffPolicy: ({
    text,
    inForce,
  }: {
    readonly text: string;
    readonly inForce: PolicyDocument;
  }): { readonly kind: "ok"; readonly diff: PolicyDiff } | Bad => {
    const read = readPolicy({ name: "policy", text });
    return read.kind === "ok" ? { kind: "ok", diff: diff(compile(inForce), compile(read.document)) } : read;
  },

  /** With `text`, the decisions of that policy, and beside them those of the policy in force. */
  simulatePolicy: ({
    text,
    inForce,
    requests,
  }: {
    readonly text: string | null;
    readonly inForce: PolicyDocument;
    readonly requests: readonly PolicyRequest[];
  }):
    | {
        readonly kind: "ok";
        readonly simulation: Simulation;
        readonly before: Simulation | null;
        readonly steps: number;
      }
    | Bad => {
    const budget = simulationBudget();
    const read = text === null ? null : readPolicy({ name: "policy", text });
    if (read?.kind === "bad") return read;
    const current = simulate(compile(inForce), requests, budget);
    if (read === null) return { kind: "ok", simulation: current, before: null, steps: budget.spent };
    const simulation = simulate(compile(read.document), requests, budget);
    return { kind: "ok", simulation, before: current, steps: budget.spent };
  },

  /** Called for each page of a request; `steps` are those used. */
  evaluateRecorded: ({
    text,
    inForce,
    records,
  }: {
    readonly text: string | null;
    readonly inForce: PolicyDocument;
    readonly records: readonly RecordedDecision[];
  }): ({ readonly kind: "ok"; readonly snapshot: string; readonly steps: number } & EvaluatedRecords) | Bad => {
    const compiled = draftOf(text, inForce);
    if (compiled.kind === "bad") return compiled;
    const budget = new StepBudget("the simulation", PAGE_STEPS_MAX);
    const evaluated = evaluateRecords(compiled.snapshot, records, budget);
    return { kind: "ok", snapshot: compiled.snapshot.hash, ...evaluated, steps: budget.spent };
  },

  readPolicyTests: (file: { readonly name: string; readonly text: string }): ReadYaml<readonly PolicyCase[]> =>
    readPolicyTests(file),

  testPolicy: ({
    text,
    inForce,
    cases,
  }: {
    readonly text: string | null;
    readonly inForce: PolicyDocument;
    readonly cases: readonly PreparedCase[];
  }): { readonly kind: "ok"; readonly snapshot: string; readonly tested: readonly TestedCase[] } | Bad => {
    const compiled = draftOf(text, inForce);
    if (compiled.kind === "bad") return compiled;
    const tested = testPolicy(compiled.snapshot, cases, simulationBudget());
    return { kind: "ok", snapshot: compiled.snapshot.hash, tested };
  },

  /** Not text of a client, but seconds of work. */
  predictRollout: ({
    records,
    settings,
    subject,
    treatment,
  }: {
    readonly records: readonly StoredContention[];
    readonly settings: Settings;
    readonly subject: RolloutSubject;
    readonly treatment: string;
  }): RolloutPrediction | null => predictStored(records, settings, subject, treatment),

  readWorkflow: (
    request: WorkflowSource,
  ): { readonly kind: "ok"; readonly id: string; readonly document: unknown } | Bad => {
    if ("source" in request) {
      const read = readWorkflow(request.source);
      return read.kind === "ok" ? { kind: "ok", id: read.plan.id, document: read.document } : read;
    }
    const compiled = compileWorkflow(request.document);
    return compiled.kind === "ok" ? { kind: "ok", id: compiled.plan.id, document: request.document } : compiled;
  },

  /** Templates and schemas of a dry run. `steps` are those used of `stepsMax`. */
  dryInputs: ({
    document,
    input,
    run,
    stepsMax,
  }: {
    readonly document: unknown;
    readonly input: unknown;
    readonly run: Scope["run"];
    readonly stepsMax: number;
  }): { readonly kind: "ok"; readonly inputs: Readonly<Record<string, DryInput>>; readonly steps: number } | Bad => {
    const compiled = compileWorkflow(document);
    if (compiled.kind === "bad") return compiled;
    const budget = new StepBudget("the dry run", stepsMax);
    const rendered = dryInputs(compiled.plan, input, run, budget);
    return rendered.kind === "ok" ? { ...rendered, steps: budget.spent } : rendered;
  },
} as const;

type Draft = { readonly kind: "ok"; readonly snapshot: Snapshot } | Bad;

function draftOf(text: string | null, inForce: PolicyDocument): Draft {
  if (text === null) return { kind: "ok", snapshot: compile(inForce) };
  if (lastDraft?.text !== text) {
    const read = readPolicy({ name: "policy", text });
    if (read.kind === "bad") return read;
    lastDraft = { text, snapshot: compile(read.document) };
  }
  return { kind: "ok", snapshot: lastDraft.snapshot };
}

/** The pages of a simulation have the same policy; a pure function of its text. */
let lastDraft: { readonly text: string; readonly snapshot: Snapshot } | null = null;

/** Above what the conditions of one page of records can take. */
const PAGE_STEPS_MAX = 100_000_000;

export type TaskName = keyof typeof TASKS;
export type TaskInput<N extends TaskName> = Parameters<(typeof TASKS)[N]>[0];
export type TaskAnswer<N extends TaskName> = ReturnType<(typeof TASKS)[N]>;

export type TaskOutcome<N extends TaskName> =
  | { readonly kind: "answered"; readonly answer: TaskAnswer<N> }
  | { readonly kind: "over"; readonly why: string };

export function runTask<N extends TaskName>(name: N, input: TaskInput<N>): TaskOutcome<N> {
  try {
    const run = TASKS[name] as (input: TaskInput<N>) => TaskAnswer<N>;
    return { kind: "answered", answer: run(input) };
  } catch (error) {
    if (error instanceof BudgetError) return { kind: "over", why: error.message };
    throw error;
  }
}
