import { describe, expect, test } from "vitest";
import { READ_BYTES_MAX } from "../../../../src/core/workflow/run/values.ts";
import { approve } from "../../../../src/engine/safety/approve-job.ts";
import type { Blobs } from "../../../../src/ports/blobs.ts";
import { around } from "../../../../src/sim/mutants/decorators.ts";
import { RunHarness } from "../../run-harness.ts";

const OUTPUT_BYTES = 2_000_000;
const COUNT = 24;

describe("values read by expressions", () => {
  test("are bounded per decision; further values are read in further decisions", async () => {
    const read = (at: number) => ({
      type: "transform",
      depends_on: ["ask", `s${at}`],
      input: `\${steps.s${at}.output.n}`,
    });
    const readers = Object.fromEntries(Array.from({ length: COUNT }, (_, at) => [`r${at}`, read(at)]));
    const { harness, id, loadedMax } = await manyOutputs(readers);
    const { state, output } = harness.runOf(id);
    const values = Object.fromEntries(Object.keys(readers).map((name) => [name, 7]));
    expect({ state, output }).toEqual({ state: "SUCCEEDED", output: { kind: "inline", value: values } });
    expect(loadedMax()).toBeGreaterThan(READ_BYTES_MAX / 2);
    expect(loadedMax()).toBeLessThan(READ_BYTES_MAX + 2 * OUTPUT_BYTES);
  });

  test("over the limit fail the expression that needs them and no other", async () => {
    const all = Array.from({ length: COUNT }, (_, at) => `steps.s${at}.output.n`).join(" + ");
    const after = ["ask", ...Array.from({ length: COUNT }, (_, at) => `s${at}`)];
    const { harness, id } = await manyOutputs({
      all: { type: "transform", depends_on: after, input: `\${${all}}`, on_error: "continue" },
      some: { type: "transform", depends_on: after, input: "${steps.s1.output.n}" },
    });
    const { all: failed, some } = harness.runOf(id).steps;
    const message = expect.stringContaining("exceeds the read limit");
    expect(failed).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed", message } });
    expect(some).toMatchObject({ state: "SUCCEEDED", output: { value: 7 } });
  });

  test("over the limit fail the run when they form its output", async () => {
    const { harness, id } = await manyOutputs({});
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { name: "TooLarge" } });
  });
});

/** Runs steps with large outputs, then an approval, then the given readers. */
async function manyOutputs(readers: Record<string, object>) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.much"], async () => ({ n: 7, text: "y".repeat(OUTPUT_BYTES) }));
  const writers = Object.fromEntries(Array.from({ length: COUNT }, (_, at) => [`s${at}`, { topic: "demo.much" }]));
  await harness.apply(engine, { id: "w", steps: { ...writers, ask: { type: "approval" }, ...readers } });
  const id = await harness.started(engine, "w");
  await harness.pass(30_000);
  let loaded = 0;
  let maxLoaded = 0;
  const get: Blobs["get"] = async (key) => {
    const bytes = await blobs.get(key);
    loaded += bytes?.length ?? 0;
    maxLoaded = Math.max(maxLoaded, loaded);
    return bytes;
  };
  const { blobs } = engine.world;
  Object.assign(engine.world, { blobs: around(blobs, { get }) });
  harness.sim.net.onCommit = () => {
    loaded = 0;
  };
  await harness.run(approve(engine, { org: "default", jobId: `${id}:ask@1`, by: "bob" }));
  await harness.pass(1_000);
  return { harness, id, loadedMax: () => maxLoaded };
}

test("outputs with paths under one parent are merged", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const value = (input: unknown, facts: object) => ({ type: "transform", input, ...facts });
  const steps = {
    id: value(7, { output_path: "o.id" }),
    total: value(12, { output_path: "o.total", depends_on: ["id"] }),
    all: value("${context}", { depends_on: ["total"] }),
  };
  await harness.apply(engine, { id: "paths", steps });
  const id = await harness.started(engine, "paths");
  expect(harness.runOf(id).output).toMatchObject({ value: { all: { o: { id: 7, total: 12 } } } });
});
