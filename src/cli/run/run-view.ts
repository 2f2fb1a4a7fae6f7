/** Builds the picture of a run from gateway documents. */

import { isRunFinal, RUN_MOVES, type RunState } from "../../core/model/run.ts";
import { describeCompensation } from "../../core/model/runs/compensation.ts";
import type { Client, Json } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import type { Io } from "../io.ts";
import { describeApproval } from "../table.ts";
import type { DrawOptions, PictureStep, RunPicture } from "./draw-run.ts";

/** A run document with the waits of its steps, as far as they are known. */
export interface RunSnapshot {
  readonly view: Json;
  readonly waits: readonly Json[];
}

export const hasEnded = (state: string): boolean => !Object.hasOwn(RUN_MOVES, state) || isRunFinal(state as RunState);

export const exitCodeOf = (state: string): ExitCode => (state === "SUCCEEDED" ? EXIT.ok : EXIT.error);

export async function fetchRun(client: Client, id: string): Promise<RunSnapshot> {
  const view = await client.runs.get(id);
  if (hasEnded(view.state)) return { view, waits: [] };
  // Waits are optional detail.
  const explained = await client.runs.explain(id).catch(() => null);
  return { view, waits: explained?.waits ?? [] };
}

/** Steps and dependencies from the run, or from the workflow if the run has no dependencies. */
export async function fetchShape(client: Client, view: Json): Promise<RunShape> {
  const steps = Object.entries<Json>(view.steps ?? {});
  if (steps.length > 0 && steps.every(([, step]) => Array.isArray(step.depends_on))) {
    return new Map(steps.map(([id, step]) => [id, { type: step.type ?? null, dependsOn: step.depends_on }]));
  }
  const workflow: Json = await client.workflows.get(view.workflow_id, { version: view.version });
  return shapeOf(workflow.definition ?? workflow.document ?? {});
}

export type RunShape = ReadonlyMap<string, { readonly type: string | null; readonly dependsOn: readonly string[] }>;

/** Includes the dependencies implied by `then`, `else`, `cases`, `default`, `branches`, `on_error` and loops. */
export function shapeOf(definition: Json): RunShape {
  const outer = Object.entries<Json>(definition.steps ?? {});
  const steps = outer.flatMap(([id, step]) => [[id, step] as const, ...Object.entries<Json>(step?.steps ?? {})]);
  const before = new Map(steps.map(([id, step]) => [id, new Set<string>(step.depends_on ?? [])]));
  for (const [id, step] of steps) {
    const cases = Object.values<Json>(step.cases ?? {});
    for (const named of [
      step.then,
      step.else,
      ...cases,
      step.default,
      step.branches,
      [step.on_error],
      Object.keys(step.steps ?? {}),
    ].flat()) {
      if (typeof named === "string") before.get(named)?.add(id);
    }
  }
  return new Map(
    steps.map(([id, step]) => [id, { type: step.type ?? "worker", dependsOn: [...(before.get(id) ?? [])] }]),
  );
}

export function pictureOf(io: Io, { view, waits }: RunSnapshot, shape: RunShape): RunPicture {
  const updatedMs = Date.parse(view.updated_at);
  const steps = [...shape].map(([id, { type, dependsOn }]): PictureStep => {
    const step = view.steps?.[id] ?? { state: "PENDING" };
    const wait = waits.find((line) => line.step_id === id) ?? null;
    return {
      id,
      dependsOn,
      state: step.state,
      startedMs: msOf(step.started_at),
      endedMs: msOf(step.ended_at) ?? (hasEnded(view.state) ? updatedMs : null),
      children: step.children ?? null,
      note: noteOf(step, wait),
      actions: approvalCommands(io, type, step, wait),
    };
  });
  return {
    runId: view.run_id,
    workflow: `${view.workflow_id} v${view.version}`,
    state: view.state,
    startedMs: Date.parse(view.created_at),
    endedMs: hasEnded(view.state) ? updatedMs : null,
    error: errorOf(view),
    waitsFor: runWait(io, waits),
    steps,
  };
}

/** The error of an ended run, with what became of its compensations. */
function errorOf({ error, compensation }: Json): string | null {
  if (!error) return null;
  return compensation ? `${error.message}; ${describeCompensation(compensation)}` : error.message;
}

export function drawOptions(io: Io, height: number | null): DrawOptions {
  const screen = io.screen?.() ?? null;
  return {
    width: Math.max(COLUMNS_MIN, screen?.columns ?? COLUMNS),
    height,
    color: screen?.color ?? false,
    unicode: io.env.TERM !== "dumb",
    nowMs: io.nowMs(),
  };
}

/** A short reason for the state of a step. */
export function noteOf(step: Json, wait: Json | null): string | null {
  if (step.compensation) return compensationNote(step.compensation, wait);
  if (step.error) return step.error.message;
  if (step.why) return step.why;
  if (step.arm) return `→ ${step.arm}`;
  if (step.arms) return `→ ${step.arms.join(", ") || "nothing"}`;
  if (step.iteration) return `iteration ${step.iteration} of at most ${step.max_iterations}`;
  if (step.approval?.decided_by && isSettled(step.state)) return describeApproval(step.approval);
  // Steps with children show counts instead.
  return step.state === "RUNNING" && wait !== null && !step.children ? wait.reason : null;
}

function compensationNote({ state, children, error }: Json, wait: Json | null): string {
  const items = children ? ` (${children.succeeded} items, ${children.failed} failed)` : "";
  switch (state) {
    case "SUCCEEDED":
      return `undone${items}`;
    case "FAILED":
      return `failed to undo${items}: ${error?.message ?? ""}`;
    default:
      return wait?.reason ?? `undoing${items}`;
  }
}

/** Commands that approve the pending jobs of a step. */
function approvalCommands(io: Io, type: string | null, step: Json, wait: Json | null): readonly string[] {
  if (step.state !== "RUNNING" && step.compensation?.state !== "RUNNING") return [];
  const suggested = String(wait?.unblocks ?? "").match(/\bcordum approval approve [\w.:@-]+/)?.[0];
  const isPending = suggested !== undefined || type === "approval";
  if (!isPending) return [];
  // Every child of a `for_each` has its own approval.
  const own = step.job_id && /^[\w.:@-]+$/.test(step.job_id) ? `cordum approval approve ${step.job_id}` : undefined;
  const commands = [suggested ?? own, "cordum approval list"].filter((one) => one !== undefined);
  return commands.map((one) => one.replace(/^cordum\b/, io.command));
}

/** The wait of the run itself, such as a pause. */
function runWait(io: Io, waits: readonly Json[]): string | null {
  const wait = waits.find((line) => line.step_id === null);
  if (wait === undefined) return null;
  return `${wait.reason}; ${String(wait.unblocks).replace(/^cordum\b/, io.command)}`;
}

const isSettled = (state: string): boolean => state !== "PENDING" && state !== "RUNNING";

const msOf = (at: unknown): number | null => (typeof at === "string" ? Date.parse(at) : null);

const COLUMNS = 100;
const COLUMNS_MIN = 20;
