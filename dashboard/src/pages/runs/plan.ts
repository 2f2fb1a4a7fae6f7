/** The plan of a run as a graph. A list step is one node with counts, whatever its number of children (L53). */
import type { RunDetail, RunStep } from "../../../../src/client/schema.ts";

export interface PlanNode {
  readonly id: string;
  readonly width: number;
  readonly height: number;
}

export interface PlanShape {
  readonly nodes: readonly PlanNode[];
  readonly edges: readonly (readonly [string, string])[];
  readonly direction: "LR" | "TB";
}

export interface PlanLayout {
  readonly width: number;
  readonly height: number;
  /** Centers. */
  readonly nodes: Readonly<Record<string, { readonly x: number; readonly y: number }>>;
  readonly edges: readonly {
    readonly from: string;
    readonly to: string;
    readonly points: readonly { readonly x: number; readonly y: number }[];
  }[];
}

type Steps = RunDetail["steps"];

export const NODE = { width: 204, height: 58 } as const;

/** Pending steps are part of it. Dependencies on unknown steps are left out. */
export function shapeOf(steps: Steps, direction: PlanShape["direction"]): PlanShape {
  const ids = Object.keys(steps);
  const edges = ids.flatMap((id) =>
    (steps[id]?.depends_on ?? []).filter((from) => steps[from] !== undefined).map((from) => [from, id] as const),
  );
  return { nodes: ids.map((id) => ({ id, ...NODE })), edges, direction };
}

/** The chain of steps that decided when the run ended, or how far it is: each waited for the one before it. */
export function criticalPath(steps: Steps): ReadonlySet<string> {
  const path = new Set<string>();
  let at = latest(Object.keys(steps), steps);
  while (at !== null && !path.has(at)) {
    path.add(at);
    at = latest(steps[at]?.depends_on ?? [], steps);
  }
  return path;
}

/** The step that ended last; an open one is later than all that have ended. Steps that did not start are left out. */
function latest(ids: readonly string[], steps: Steps): string | null {
  let [found, foundMs] = [null as string | null, Number.NEGATIVE_INFINITY];
  for (const id of ids) {
    const step = steps[id];
    if (step === undefined || step.started_at === null) continue;
    const endMs = step.ended_at === null ? Number.POSITIVE_INFINITY : Date.parse(step.ended_at);
    if (endMs >= foundMs) [found, foundMs] = [id, endMs];
  }
  return found;
}

export function durationOf(
  { started_at, ended_at }: Pick<RunStep, "started_at" | "ended_at">,
  nowMs: number,
): number | null {
  if (started_at === null) return null;
  return Math.max(0, (ended_at === null ? nowMs : Date.parse(ended_at)) - Date.parse(started_at));
}

/** Steps by state, for a summary. */
export function stateCounts(steps: Steps): readonly (readonly [string, number])[] {
  const counts = new Map<string, number>();
  for (const { state } of Object.values(steps)) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}
