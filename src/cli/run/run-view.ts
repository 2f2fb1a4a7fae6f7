/** From the documents of the gateway to the picture of a run, and the words for what it is at. */
import { isRunFinal, RUN_MOVES, type RunState } from "../../core/model/run.ts";
import { type Client, type Json, pathTo } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import type { Io } from "../io.ts";
import type { Look, PictureStep, RunPicture } from "./draw-run.ts";

/** A run as it is drawn: its own document, and what each step waits for, where that is known. */
export interface SeenRun {
  readonly view: Json;
  readonly waits: readonly Json[];
}

export const isOver = (state: string): boolean => !Object.hasOwn(RUN_MOVES, state) || isRunFinal(state as RunState);

export const exitCodeOf = (state: string): ExitCode => (state === "SUCCEEDED" ? EXIT.ok : EXIT.error);

export async function seeRun(client: Client, id: string): Promise<SeenRun> {
  const path = pathTo("workflow-runs", id);
  const view = await client.get(path);
  if (isOver(view.state)) return { view, waits: [] };
  // Only a word more on what is waited for: the picture is worth showing without it.
  const explained = await client.get(`${path}/explain`).catch(() => null);
  return { view, waits: explained?.waits ?? [] };
}

/** Steps with what they depend on: from the run, or from the workflow where the run does not say. */
export async function stepsOf(client: Client, view: Json): Promise<Shape> {
  const told = Object.entries<Json>(view.steps ?? {});
  if (told.length > 0 && told.every(([, step]) => Array.isArray(step.depends_on))) {
    return new Map(told.map(([id, step]) => [id, { type: step.type ?? null, dependsOn: step.depends_on }]));
  }
  const workflow = await client.get(pathTo("workflows", view.workflow_id), { version: String(view.version) });
  return shapeOf(workflow.definition ?? workflow.document ?? {});
}

export type Shape = ReadonlyMap<string, { readonly type: string | null; readonly dependsOn: readonly string[] }>;

/** As it is written, with what follows from `then`, `else`, `cases`, `default`, `branches` and `on_error`. */
export function shapeOf(definition: Json): Shape {
  const steps = Object.entries<Json>(definition.steps ?? {});
  const before = new Map(steps.map(([id, step]) => [id, new Set<string>(step.depends_on ?? [])]));
  for (const [id, step] of steps) {
    const cases = Object.values<Json>(step.cases ?? {});
    for (const named of [step.then, step.else, ...cases, step.default, step.branches, [step.on_error]].flat()) {
      if (typeof named === "string") before.get(named)?.add(id);
    }
  }
  return new Map(
    steps.map(([id, step]) => [id, { type: step.type ?? "worker", dependsOn: [...(before.get(id) ?? [])] }]),
  );
}

export function pictureOf(io: Io, { view, waits }: SeenRun, shape: Shape): RunPicture {
  const updatedMs = Date.parse(view.updated_at);
  const steps = [...shape].map(([id, { type, dependsOn }]): PictureStep => {
    const step = view.steps?.[id] ?? { state: "PENDING" };
    const wait = waits.find((line) => line.step_id === id) ?? null;
    return {
      id,
      dependsOn,
      state: step.state,
      startedMs: msOf(step.started_at),
      endedMs: msOf(step.ended_at) ?? (isOver(view.state) ? updatedMs : null),
      children: step.children ?? null,
      note: noteOf(step, wait),
      toDo: toDoOf(io, type, step, wait),
    };
  });
  return {
    runId: view.run_id,
    workflow: `${view.workflow_id} v${view.version}`,
    state: view.state,
    startedMs: Date.parse(view.created_at),
    endedMs: isOver(view.state) ? updatedMs : null,
    error: view.error?.message ?? null,
    waitsFor: wholeOf(io, waits),
    steps,
  };
}

/** How to draw for whoever reads stdout. */
export function lookOf(io: Io, height: number | null): Look {
  const screen = io.screen?.() ?? null;
  return {
    width: Math.max(COLUMNS_MIN, screen?.columns ?? COLUMNS),
    height,
    color: screen?.color ?? false,
    unicode: io.env.TERM !== "dumb",
    nowMs: io.nowMs(),
  };
}

/** Why a step is as it is, in a few words. */
export function noteOf(step: Json, wait: Json | null): string | null {
  if (step.error) return step.error.message;
  if (step.why) return step.why;
  if (step.arm) return `→ ${step.arm}`;
  if (step.arms) return `→ ${step.arms.join(", ") || "nothing"}`;
  // How a list comes along is told by its counts.
  return step.state === "RUNNING" && wait !== null && !step.children ? wait.reason : null;
}

/** The jobs of a step that a human has to decide about, as commands. */
function toDoOf(io: Io, type: string | null, step: Json, wait: Json | null): readonly string[] {
  if (step.state !== "RUNNING") return [];
  const told = String(wait?.unblocks ?? "").match(/\bcordum approval approve [\w.:@-]+/)?.[0];
  const isAsked = told !== undefined || type === "approval";
  if (!isAsked) return [];
  // Each child of a list is asked about on its own.
  const own = step.job_id && /^[\w.:@-]+$/.test(step.job_id) ? `cordum approval approve ${step.job_id}` : undefined;
  const commands = [told ?? own, "cordum approval list"].filter((one) => one !== undefined);
  return commands.map((one) => one.replace(/^cordum\b/, io.command));
}

/** What the run as a whole waits for, such as somebody to resume it. */
function wholeOf(io: Io, waits: readonly Json[]): string | null {
  const wait = waits.find((line) => line.step_id === null);
  if (wait === undefined) return null;
  return `${wait.reason}; ${String(wait.unblocks).replace(/^cordum\b/, io.command)}`;
}

const msOf = (at: unknown): number | null => (typeof at === "string" ? Date.parse(at) : null);

const COLUMNS = 100;
const COLUMNS_MIN = 20;
