import { describe, expect, test } from "vitest";
import { cancelRun } from "../../src/flow/control-run.ts";
import type { Flow } from "../../src/flow/flow.ts";
import { retryLetter } from "../../src/flow/revive.ts";
import { DEAD_LETTERS } from "../../src/model/dead-letter.ts";
import { RUNS, RUNS_GROUP } from "../../src/model/run.ts";
import { RunPlant } from "./run-plant.ts";

const ONCE = { retry: { max_retries: 0 } };
const step = (facts: object = {}) => ({ topic: "demo.flaky", ...ONCE, ...facts });

/** Workers that fail for the inputs that are broken now. */
async function openFlaky() {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  const broken = new Set<unknown>();
  const worked: unknown[] = [];
  await plant.worker("w1", ["demo.flaky"], async ({ input }) => {
    worked.push(input);
    if (broken.has(input)) throw new Error(`broken: ${String(input)}`);
    return input;
  });
  return { plant, flow, broken, worked };
}

const retry = (plant: RunPlant, flow: Flow, id: string) =>
  plant.run(retryLetter(flow, { org: "default", id, by: "bob" }));

describe("L42: a step's dead letter, tried again", () => {
  test.each([0, 10_000])(
    "of two children, %i ms apart: the others are not done again, and the run ends as if nothing had been",
    async (apartMs) => {
      const { plant, flow, broken, worked } = await openFlaky();
      broken.add(2).add(4);
      const each = step({ for_each: "${[1, 2, 3, 4, 5]}", failure: "wait_all" });
      const after = step({ depends_on: ["each"], input: "after" });
      await plant.apply(flow, { id: "fan", output: "${steps.each.output}", steps: { each, after } });
      const id = await plant.started(flow, "fan");
      await plant.pass(5_000);
      expect(plant.runOf(id)).toMatchObject({ state: "FAILED", error: { message: expect.stringContaining("broken") } });
      broken.clear();
      for (const index of [1, 3]) {
        expect(await retry(plant, flow, `${id}:each.${index}@1`)).toMatchObject({ kind: "revived" });
        await plant.pass(apartMs);
      }
      await plant.pass(10_000);
      expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED", error: null, output: { value: [1, 2, 3, 4, 5] } });
      expect(plant.runOf(id).steps.each?.fan).toMatchObject({ open: 0, succeeded: 5, failed: 0 });
      expect(worked.filter((input) => input === 1)).toHaveLength(1);
      expect([...plant.bench.net.store.rows(DEAD_LETTERS)]).toEqual([]);
      expect(plant.bench.net.store.count(RUNS_GROUP, "default")).toBe(0);
    },
  );

  test("of a sub-workflow: a new run of it is made, and the run above goes on", async () => {
    const { plant, flow, broken } = await openFlaky();
    broken.add("inner");
    await plant.apply(flow, { id: "inner", steps: { a: step({ input: "inner" }) } });
    await plant.apply(flow, { id: "outer", steps: { sub: { type: "subworkflow", workflow: "inner" } } });
    const id = await plant.started(flow, "outer");
    await plant.pass(10_000);
    expect(plant.runOf(id).state).toBe("FAILED");
    broken.clear();
    expect(await retry(plant, flow, `${id}:sub@1`)).toMatchObject({ kind: "revived" });
    await plant.pass(10_000);
    expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { sub: { a: "inner" } } } });
    expect([...plant.bench.net.store.rows(RUNS)]).toHaveLength(3);
  });

  test("while the run is still open (on_error: continue, what follows has not begun): it is taken back", async () => {
    const { plant, flow, broken } = await openFlaky();
    broken.add("a");
    const steps = {
      a: step({ input: "a", on_error: "continue" }),
      wait: { type: "delay", delay_sec: 60 },
      b: step({ depends_on: ["a", "wait"], input: "${steps.a.state}" }),
    };
    await plant.apply(flow, { id: "open", steps });
    const id = await plant.started(flow, "open");
    await plant.pass(5_000);
    broken.clear();
    expect(await retry(plant, flow, `${id}:a@1`)).toMatchObject({ kind: "revived" });
    await plant.pass(90_000);
    expect(plant.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { b: "SUCCEEDED" } } });
  });

  test("that cannot be taken back says why, and changes nothing", async () => {
    const { plant, flow, broken } = await openFlaky();
    broken.add("a");
    await plant.apply(flow, {
      id: "on",
      steps: { a: step({ input: "a", on_error: "continue" }), b: step({ depends_on: ["a"], input: "b" }) },
    });
    const id = await plant.started(flow, "on");
    await plant.pass(5_000);
    const before = plant.runOf(id);
    expect(await retry(plant, flow, `${id}:a@1`)).toMatchObject({ kind: "run_went_on" });
    expect(plant.runOf(id)).toEqual(before);
    expect((await plant.job(`${id}:a@1`)).state).toBe("FAILED");
    expect([...plant.bench.net.store.rows(DEAD_LETTERS)]).toHaveLength(1);
  });

  test("of a run that was cancelled: it stays cancelled", async () => {
    const { plant, flow, broken } = await openFlaky();
    broken.add("a");
    const steps = { a: step({ input: "a", on_error: "continue" }), ask: { type: "approval" } };
    await plant.apply(flow, { id: "c", steps });
    const id = await plant.started(flow, "c");
    await plant.pass(5_000);
    await plant.run(cancelRun(flow, { org: "default", runId: id, by: "bob", why: "enough" }));
    expect(await retry(plant, flow, `${id}:a@1`)).toMatchObject({ kind: "run_went_on" });
    expect(plant.runOf(id).state).toBe("CANCELLED");
  });

  test("by ten people at once, in two processes: it lives again once", async () => {
    const { plant, flow, broken, worked } = await openFlaky();
    const { flow: other } = await plant.control("c2");
    broken.add("a");
    await plant.apply(flow, { id: "ten", steps: { a: step({ input: "a" }) } });
    const id = await plant.started(flow, "ten");
    await plant.pass(5_000);
    broken.clear();
    const letter = { org: "default", id: `${id}:a@1`, by: "bob" };
    const retries = Array.from({ length: 10 }, (_, at) => retryLetter(at % 2 ? flow : other, letter));
    const outcomes = await plant.run(Promise.all(retries));
    expect(outcomes.filter(({ kind }) => kind === "revived")).toHaveLength(1);
    await plant.pass(10_000);
    expect(plant.runOf(id).state).toBe("SUCCEEDED");
    expect(worked).toEqual(["a", "a"]);
  });
});
