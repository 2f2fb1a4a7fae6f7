import { describe, expect, test } from "vitest";
import { criticalPath, durationOf, shapeOf, stateCounts } from "../../../dashboard/src/pages/runs/plan.ts";
import type { RunDetail, RunStep } from "../../../src/client/schema.ts";

const at = (second: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, second)).toISOString();

function step(
  depends_on: readonly string[],
  from: number | null,
  to: number | null,
  more: Partial<RunStep> = {},
): RunStep {
  return {
    state: to === null ? (from === null ? "PENDING" : "RUNNING") : "SUCCEEDED",
    depends_on,
    started_at: from === null ? null : at(from),
    ended_at: to === null ? null : at(to),
    ...({ type: "worker", job_id: null, attempt: null, worker_id: null, sub_run_id: null, approval: null } as const),
    ...({ output: null, output_at: null, error: null, why: null, arm: null } as const),
    ...more,
  };
}

describe("the plan as a graph", () => {
  test("L53: a list step is one node whatever its number of children, and pending steps are nodes", () => {
    const children = { count: 10_000, spawned: 64, open: 64, succeeded: 0, failed: 0, cancelled: 0 };
    const steps: RunDetail["steps"] = {
      split: step([], 0, 1),
      each: step(["split"], 1, null, { children }),
      join: step(["each"], null, null),
    };
    const { nodes, edges } = shapeOf(steps, "LR");
    expect(nodes.map(({ id }) => id)).toEqual(["split", "each", "join"]);
    expect(edges).toEqual([
      ["split", "each"],
      ["each", "join"],
    ]);
  });

  test("leaves out dependencies on steps that the run does not have", () => {
    expect(shapeOf({ a: step(["gone"], 0, 1) }, "LR").edges).toEqual([]);
  });
});

describe("the critical path", () => {
  test("follows the dependency that ended last", () => {
    const steps = { a: step([], 0, 1), b: step([], 0, 5), c: step(["a", "b"], 5, 6), d: step(["a"], 1, 2) };
    expect([...criticalPath(steps)]).toEqual(["c", "b"]);
  });

  test("ends at a step that runs, and has no step that did not start", () => {
    const steps = { a: step([], 0, 9), b: step([], 0, 1), c: step(["b"], 1, null), e: step(["c"], null, null) };
    expect([...criticalPath(steps)]).toEqual(["c", "b"]);
  });

  test("is empty before the first step, and ends in a cycle", () => {
    expect(criticalPath({ a: step([], null, null) }).size).toBe(0);
    expect([...criticalPath({ a: step(["b"], 0, 1), b: step(["a"], 0, 1) })]).toHaveLength(2);
  });
});

test("durations of open steps grow, and steps that did not start have none", () => {
  expect(durationOf(step([], 1, 3), 0)).toBe(2_000);
  expect(durationOf(step([], 1, null), Date.parse(at(9)))).toBe(8_000);
  expect(durationOf(step([], null, null), 0)).toBeNull();
});

test("counts steps by state, most first", () => {
  expect(stateCounts({ a: step([], 0, 1), b: step([], 0, null), c: step([], 0, 1) })).toEqual([
    ["SUCCEEDED", 2],
    ["RUNNING", 1],
  ]);
});
