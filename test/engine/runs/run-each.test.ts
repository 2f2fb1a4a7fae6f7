import { describe, expect, test } from "vitest";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { RunHarness } from "../run-harness.ts";

async function open() {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const broken = new Set<unknown>();
  const worked: unknown[] = [];
  await harness.worker("w1", ["demo.echo"], async ({ input }) => {
    worked.push(input);
    if (broken.has(input)) throw new Error(`broken: ${String(input)}`);
    return input;
  });
  return { harness, engine, broken, worked };
}

const echo = (input: unknown, facts: object = {}) => ({
  topic: "demo.echo",
  retry: { max_retries: 0 },
  input,
  ...facts,
});
const THEN = "then";

describe("an item that fails, of a step that takes no time", () => {
  const [big, bad, little] = [{ x: 5 }, {}, { x: -5 }];
  const steps = (failure: unknown) => ({
    each: { type: "transform", for_each: "${input}", input: "${item.x}", failure, on_error: "continue" },
    asked: { type: "condition", for_each: "${input}", condition: "item.x > 0", failure, on_error: "continue" },
  });

  test.each([
    { failure: "fail_fast", input: [big, bad, little], state: "FAILED", told: 0 },
    { failure: "wait_all", input: [big, bad, little], state: "FAILED", told: 1 },
    { failure: { tolerate: 1 }, input: [big, bad, little], state: "SUCCEEDED", told: 1 },
    { failure: { tolerate: 1 }, input: [bad, big, bad], state: "FAILED", told: 2 },
  ])("is counted as `failure` says: $failure, $state", async ({ failure, input, state, told }) => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "w", steps: steps(failure) });
    const id = await harness.started(engine, "w", { input });
    await harness.pass(5_000);
    const { steps: became, lines } = harness.runOf(id);
    expect([became.each?.state, became.asked?.state]).toEqual([state, state]);
    expect(lines.filter(({ event, stepId }) => event === "child_failed" && stepId === "each")).toHaveLength(told);
    if (state === "FAILED") {
      expect(became.each?.error?.message).toMatch(/^item \d: /);
    } else {
      expect(became.each?.output).toMatchObject({ value: [5, null, -5] });
      expect(became.asked).toMatchObject({ output: { value: [true, null, false] }, arms: ["then", "else"] });
    }
  });
});

describe("a condition for each item", () => {
  const steps = {
    large: {
      type: "condition",
      condition: "item > 10 + index",
      for_each: "${input}",
      [THEN]: ["big"],
      else: ["little"],
    },
    big: echo("big"),
    little: echo("little"),
    after: { type: "transform", depends_on: ["big", "little"], input: "${steps.large.output}" },
  };

  test.each([
    { input: [1, 20, 12, 30], answers: [false, true, false, true], arms: ["else", "then"], ran: ["big", "little"] },
    { input: [20, 30], answers: [true, true], arms: ["then"], ran: ["big"] },
    { input: [1], answers: [false], arms: ["else"], ran: ["little"] },
    { input: [], answers: [], arms: [], ran: [] },
  ])("runs each arm that an item chose, once: $input", async ({ input, answers, arms, ran }) => {
    const { harness, engine, worked } = await open();
    await harness.apply(engine, { id: "w", steps });
    const id = await harness.started(engine, "w", { input });
    await harness.pass(5_000);
    const { state, steps: became, lines } = harness.runOf(id);
    expect(state).toBe("SUCCEEDED");
    expect([...worked].sort()).toEqual(ran);
    expect(became.large).toMatchObject({ state: "SUCCEEDED", arms, output: { value: answers } });
    const told = lines.filter(({ event }) => event === "arm_chosen").map(({ why }) => why);
    expect(told).toEqual(arms.length === 0 ? [] : [arms.join(", ")]);
    for (const arm of ["big", "little"]) {
      const why = `step \`large\` chose ${arms.map((name) => `\`${name}\``).join(", ") || "nothing"}`;
      expect(became[arm]).toMatchObject(ran.includes(arm) ? { state: "SUCCEEDED" } : { state: "SKIPPED", why });
    }
    expect(became.after?.state).toBe(ran.length === 0 ? "SKIPPED" : "SUCCEEDED");
  });

  test("that cannot be asked of one of them fails, and names it", async () => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "w", steps });
    const id = await harness.started(engine, "w", { input: [1, { a: 1 }] });
    const message = expect.stringContaining("item 1: `condition`: ");
    expect(harness.runOf(id).steps.large).toMatchObject({
      state: "FAILED",
      error: { name: "ExpressionFailed", message },
    });
  });

  test("must not take long altogether", async () => {
    const { harness, engine } = await open();
    const condition = "size(input.filter(x, input.exists(y, y == x + 1000))) == item";
    await harness.apply(engine, { id: "w", steps: { a: { type: "condition", condition, for_each: "${input}" } } });
    const id = await harness.started(engine, "w", { input: Array.from({ length: 150 }, (_, at) => at) });
    const message = expect.stringContaining("evaluation limit exceeded at item");
    expect(harness.runOf(id).steps.a).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed", message } });
  });
});

test("a switch for each item runs each case that an item has, and its default for those that have none", async () => {
  const { harness, engine, worked } = await open();
  const cases = { eu: ["here"], us: ["there"], jp: ["far"] };
  const by = { type: "switch", switch: "item.to", for_each: "${input}", cases, default: ["ask"] };
  const steps = { by, here: echo("here"), there: echo("there"), far: echo("far"), ask: echo("ask") };
  await harness.apply(engine, { id: "w", steps });
  const id = await harness.started(engine, "w", { input: [{ to: "us" }, { to: "eu" }, { to: 7 }, { to: "us" }] });
  await harness.pass(5_000);
  const output = { value: ["us", "eu", "default", "us"] };
  expect(harness.runOf(id).steps.by).toMatchObject({ arms: ["us", "eu", "default"], output });
  expect([...worked].sort()).toEqual(["ask", "here", "there"]);
  expect(harness.states(id)).toMatchObject({ far: "SKIPPED" });
});

test("a rerun keeps what a question that was asked for each item chose", async () => {
  const { harness, engine, broken, worked } = await open();
  broken.add("here");
  const by = { type: "switch", switch: "item", for_each: "['eu', 'us']", cases: { eu: ["here"], us: ["there"] } };
  await harness.apply(engine, { id: "w", steps: { by, here: echo("here"), there: echo("there") } });
  const id = await harness.started(engine, "w");
  await harness.pass(5_000);
  broken.clear();
  worked.length = 0;
  const request = { org: "default", runId: id, fromStep: "here", by: "bob", idempotencyKey: null };
  const outcome = await harness.run(rerun(engine, request));
  if (outcome.kind !== "started") throw new Error(outcome.kind);
  await harness.pass(5_000);
  expect(harness.runOf(outcome.runId)).toMatchObject({ state: "SUCCEEDED", steps: { by: { arms: ["eu", "us"] } } });
  expect(worked).toContain("here");
});

describe("a `parallel` step for each item", () => {
  const list = { for_each: "${input}", max_parallel: 2 };
  const branches = {
    one: echo({ one: "${item}", at: "${index}" }),
    two: { type: "transform", input: "${item * 2}" },
  };

  test("does each of its branches for each of them", async () => {
    const { harness, engine, worked } = await open();
    const steps = { all: { type: "parallel", branches: ["one", "two"], ...list }, ...branches };
    await harness.apply(engine, { id: "w", steps, output: "${steps.all.output}" });
    const id = await harness.started(engine, "w", { input: [5, 6, 7] });
    await harness.pass(5_000);
    const one = [5, 6, 7].map((item, at) => ({ one: item, at }));
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { one, two: [10, 12, 14] } } });
    expect(harness.runOf(id).steps.one?.fan).toMatchObject({ count: 3, succeeded: 3 });
    expect(worked).toHaveLength(3);
    const none = await harness.started(engine, "w", { input: [] });
    await harness.pass(5_000);
    expect(harness.runOf(none)).toMatchObject({ state: "SUCCEEDED", output: { value: { one: [], two: [] } } });
  });

  test("no more of a branch at once than `max_parallel`, and none after one has failed", async () => {
    const { harness, engine } = await open();
    const all = { type: "parallel", branches: ["ask", "two"], join: "any", ...list, on_error: "continue" };
    await harness.apply(engine, {
      id: "w",
      steps: { all: { ...all, join: "all" }, ask: { type: "approval" }, two: branches.two },
    });
    const id = await harness.started(engine, "w", { input: [1, 2, "three"] });
    await harness.pass(2_000);
    // "three" cannot be doubled: that branch has failed, and the other is stopped with it.
    expect(harness.states(id)).toEqual({ all: "FAILED", ask: "CANCELLED", two: "FAILED" });
    expect(harness.runOf(id).steps.ask?.fan).toMatchObject({ count: 3, spawned: 2, cancelled: 2 });
  });

  test("`any`: one that has done its list is enough, and the rest of the others is stopped", async () => {
    const { harness, engine } = await open();
    const all = { type: "parallel", branches: ["one", "ask", "bad"], join: "any", ...list, failure: "wait_all" };
    const bad = echo("${item.nothing}");
    await harness.apply(engine, { id: "w", steps: { all, one: branches.one, ask: { type: "approval" }, bad } });
    const id = await harness.started(engine, "w", { input: [1, 2, 3, 4] });
    await harness.pass(10_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { all: { one: { length: 4 } } } } });
    expect(harness.states(id)).toEqual({ all: "SUCCEEDED", one: "SUCCEEDED", ask: "CANCELLED", bad: "FAILED" });
    expect(harness.runOf(id).steps.ask?.fan).toMatchObject({ open: 0, cancelled: 2, spawned: 2 });
  });

  test("reads for its branches what it may read itself, whatever they come after", async () => {
    const { harness, engine } = await open();
    const first = echo([3, 4], { output_path: "made.list" });
    const all = { type: "parallel", branches: "two", depends_on: ["first"], for_each: "${context.made.list}" };
    await harness.apply(engine, { id: "w", steps: { first, all, two: branches.two } });
    const id = await harness.started(engine, "w");
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { all: { two: [6, 8] } } } });
  });

  test("whose list is none fails, and says so of it", async () => {
    const { harness, engine } = await open();
    const all = { type: "parallel", branches: ["one", "two"], ...list };
    await harness.apply(engine, { id: "w", steps: { all, ...branches } });
    const id = await harness.started(engine, "w", { input: 7 });
    await harness.pass(5_000);
    const error = { name: "ExpressionFailed", message: expect.stringContaining("`for_each`") };
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", steps: { all: { state: "FAILED", error } } });
  });

  test("has one time for all of it", async () => {
    const { harness, engine } = await open();
    const all = { type: "parallel", branches: ["one", "ask"], timeout_sec: 20, ...list };
    await harness.apply(engine, { id: "w", steps: { all, one: branches.one, ask: { type: "approval" } } });
    const id = await harness.started(engine, "w", { input: [1, 2, 3] });
    await harness.pass(19_000);
    expect(harness.states(id)).toEqual({ all: "RUNNING", one: "SUCCEEDED", ask: "RUNNING" });
    await harness.pass(3_000);
    expect(harness.states(id)).toEqual({ all: "TIMEOUT", one: "SUCCEEDED", ask: "CANCELLED" });
  });
});
