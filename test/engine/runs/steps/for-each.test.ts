import { describe, expect, test } from "vitest";
import { rerun } from "../../../../src/engine/intake/rerun-run.ts";
import { RunHarness } from "../../run-harness.ts";

async function open() {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const broken = new Set<unknown>();
  const handled: unknown[] = [];
  await harness.worker("w1", ["demo.echo"], async ({ input }) => {
    handled.push(input);
    if (broken.has(input)) throw new Error(`broken: ${String(input)}`);
    return input;
  });
  return { harness, engine, broken, handled };
}

const echo = (input: unknown, facts: object = {}) => ({
  topic: "demo.echo",
  retry: { max_retries: 0 },
  input,
  ...facts,
});
const THEN = "then";

describe("failed items of an immediate step", () => {
  const [big, bad, little] = [{ x: 5 }, {}, { x: -5 }];
  const steps = (failure: unknown) => ({
    each: { type: "transform", for_each: "${input}", input: "${item.x}", failure, on_error: "continue" },
    checked: { type: "condition", for_each: "${input}", condition: "item.x > 0", failure, on_error: "continue" },
  });

  test.each([
    { failure: "fail_fast", input: [big, bad, little], state: "FAILED", failures: 0 },
    { failure: "wait_all", input: [big, bad, little], state: "FAILED", failures: 1 },
    { failure: { tolerate: 1 }, input: [big, bad, little], state: "SUCCEEDED", failures: 1 },
    { failure: { tolerate: 1 }, input: [bad, big, bad], state: "FAILED", failures: 2 },
  ])("follow `failure`: $failure, $state", async ({ failure, input, state, failures }) => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "w", steps: steps(failure) });
    const id = await harness.started(engine, "w", { input });
    await harness.pass(5_000);
    const { steps: ended, lines } = harness.runOf(id);
    expect([ended.each?.state, ended.checked?.state]).toEqual([state, state]);
    expect(lines.filter(({ event, stepId }) => event === "child_failed" && stepId === "each")).toHaveLength(failures);
    if (state === "FAILED") {
      expect(ended.each?.error?.message).toMatch(/^item \d: /);
    } else {
      expect(ended.each?.output).toMatchObject({ value: [5, null, -5] });
      expect(ended.checked).toMatchObject({ output: { value: [true, null, false] }, arms: ["then", "else"] });
    }
  });
});

describe("a condition with `for_each`", () => {
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
  ])("runs every arm that an item chose, once: $input", async ({ input, answers, arms, ran }) => {
    const { harness, engine, handled } = await open();
    await harness.apply(engine, { id: "w", steps });
    const id = await harness.started(engine, "w", { input });
    await harness.pass(5_000);
    const { state, steps: ended, lines } = harness.runOf(id);
    expect(state).toBe("SUCCEEDED");
    expect([...handled].sort()).toEqual(ran);
    expect(ended.large).toMatchObject({ state: "SUCCEEDED", arms, output: { value: answers } });
    const chosen = lines.filter(({ event }) => event === "arm_chosen").map(({ why }) => why);
    expect(chosen).toEqual(arms.length === 0 ? [] : [arms.join(", ")]);
    for (const arm of ["big", "little"]) {
      const why = `step \`large\` chose ${arms.map((name) => `\`${name}\``).join(", ") || "nothing"}`;
      expect(ended[arm]).toMatchObject(ran.includes(arm) ? { state: "SUCCEEDED" } : { state: "SKIPPED", why });
    }
    expect(ended.after?.state).toBe(ran.length === 0 ? "SKIPPED" : "SUCCEEDED");
  });

  test("names the item whose condition cannot be evaluated", async () => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "w", steps });
    const id = await harness.started(engine, "w", { input: [1, { a: 1 }] });
    const message = expect.stringContaining("item 1: `condition`: ");
    expect(harness.runOf(id).steps.large).toMatchObject({
      state: "FAILED",
      error: { name: "ExpressionFailed", message },
    });
  });

  test("has at most 10,000 items", async () => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "w", steps: { a: { type: "transform", input: 1, for_each: "${input}" } } });
    const id = await harness.started(engine, "w", { input: Array.from({ length: 10_001 }, () => 1) });
    const message = "`for_each` has 10001 items; at most 10000 are allowed";
    expect(harness.runOf(id).steps.a).toMatchObject({ state: "FAILED", error: { name: "TooManyItems", message } });
    const most = await harness.started(engine, "w", { input: Array.from({ length: 10_000 }, () => 1) });
    expect(harness.runOf(most).steps.a).toMatchObject({ state: "SUCCEEDED" });
  });

  test("has one evaluation limit for all items", async () => {
    const { harness, engine } = await open();
    const condition = "size(input.filter(x, input.exists(y, y == x + 1000))) == item";
    await harness.apply(engine, { id: "w", steps: { a: { type: "condition", condition, for_each: "${input}" } } });
    const id = await harness.started(engine, "w", { input: Array.from({ length: 150 }, (_, at) => at) });
    const message = expect.stringContaining("evaluation limit exceeded at item");
    expect(harness.runOf(id).steps.a).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed", message } });
  });
});

test("a switch with `for_each` runs every chosen case, and its default for items without a case", async () => {
  const { harness, engine, handled } = await open();
  const cases = { eu: ["here"], us: ["there"], jp: ["far"] };
  const by = { type: "switch", switch: "item.to", for_each: "${input}", cases, default: ["ask"] };
  const steps = { by, here: echo("here"), there: echo("there"), far: echo("far"), ask: echo("ask") };
  await harness.apply(engine, { id: "w", steps });
  const id = await harness.started(engine, "w", { input: [{ to: "us" }, { to: "eu" }, { to: 7 }, { to: "us" }] });
  await harness.pass(5_000);
  const output = { value: ["us", "eu", "default", "us"] };
  expect(harness.runOf(id).steps.by).toMatchObject({ arms: ["us", "eu", "default"], output });
  expect([...handled].sort()).toEqual(["ask", "here", "there"]);
  expect(harness.states(id)).toMatchObject({ far: "SKIPPED" });
});

test("a rerun keeps the arms chosen with `for_each`", async () => {
  const { harness, engine, broken, handled } = await open();
  broken.add("here");
  const by = { type: "switch", switch: "item", for_each: "['eu', 'us']", cases: { eu: ["here"], us: ["there"] } };
  await harness.apply(engine, { id: "w", steps: { by, here: echo("here"), there: echo("there") } });
  const id = await harness.started(engine, "w");
  await harness.pass(5_000);
  broken.clear();
  handled.length = 0;
  const request = { org: "default", runId: id, fromStep: "here", by: "bob", idempotencyKey: null };
  const outcome = await harness.run(rerun(engine, request));
  if (outcome.kind !== "started") throw new Error(outcome.kind);
  await harness.pass(5_000);
  expect(harness.runOf(outcome.runId)).toMatchObject({ state: "SUCCEEDED", steps: { by: { arms: ["eu", "us"] } } });
  expect(handled).toContain("here");
});

describe("a `parallel` with `for_each`", () => {
  const list = { for_each: "${input}", max_parallel: 2 };
  const branches = {
    one: echo({ one: "${item}", at: "${index}" }),
    two: { type: "transform", input: "${item * 2}" },
  };

  test("runs each branch for each item", async () => {
    const { harness, engine, handled } = await open();
    const steps = { all: { type: "parallel", branches: ["one", "two"], ...list }, ...branches };
    await harness.apply(engine, { id: "w", steps, output: "${steps.all.output}" });
    const id = await harness.started(engine, "w", { input: [5, 6, 7] });
    await harness.pass(5_000);
    const one = [5, 6, 7].map((item, at) => ({ one: item, at }));
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { one, two: [10, 12, 14] } } });
    expect(harness.runOf(id).steps.one?.fan).toMatchObject({ count: 3, succeeded: 3 });
    expect(handled).toHaveLength(3);
    const none = await harness.started(engine, "w", { input: [] });
    await harness.pass(5_000);
    expect(harness.runOf(none)).toMatchObject({ state: "SUCCEEDED", output: { value: { one: [], two: [] } } });
  });

  test("respects `max_parallel` per branch and starts no item after a failure", async () => {
    const { harness, engine } = await open();
    const all = { type: "parallel", branches: ["ask", "two"], join: "any", ...list, on_error: "continue" };
    await harness.apply(engine, {
      id: "w",
      steps: { all: { ...all, join: "all" }, ask: { type: "approval" }, two: branches.two },
    });
    const id = await harness.started(engine, "w", { input: [1, 2, "three"] });
    await harness.pass(2_000);
    // "three" cannot be doubled: its branch fails and the other is cancelled.
    expect(harness.states(id)).toEqual({ all: "FAILED", ask: "CANCELLED", two: "FAILED" });
    expect(harness.runOf(id).steps.ask?.fan).toMatchObject({ count: 3, spawned: 2, cancelled: 2 });
  });

  test("`any`: one completed branch is enough, and the others are cancelled", async () => {
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

  test("evaluates the list in its own context, not in that of its branches", async () => {
    const { harness, engine } = await open();
    const first = echo([3, 4], { output_path: "made.list" });
    const all = { type: "parallel", branches: "two", depends_on: ["first"], for_each: "${context.made.list}" };
    await harness.apply(engine, { id: "w", steps: { first, all, two: branches.two } });
    const id = await harness.started(engine, "w");
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: { all: { two: [6, 8] } } } });
  });

  test("fails when its list is not a list", async () => {
    const { harness, engine } = await open();
    const all = { type: "parallel", branches: ["one", "two"], ...list };
    await harness.apply(engine, { id: "w", steps: { all, ...branches } });
    const id = await harness.started(engine, "w", { input: 7 });
    await harness.pass(5_000);
    const error = { name: "ExpressionFailed", message: expect.stringContaining("`for_each`") };
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", steps: { all: { state: "FAILED", error } } });
  });

  test("has one timeout for all branches and items", async () => {
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

describe("a child that the policy denies", () => {
  const flow = (failure: string) => ({
    id: "mixed",
    steps: { each: echo("${item}", { for_each: "${input}", failure, topic: "demo.none" }) },
  });

  test.each([
    { failure: "fail_fast", siblings: "CANCELLED", counts: { failed: 1, cancelled: 2 } },
    { failure: "wait_all", siblings: "DISPATCHED", counts: { failed: 1, open: 2 } },
  ])("is written as DENIED beside allowed siblings: $failure", async ({ failure, siblings, counts }) => {
    const { harness, engine } = await open();
    const { decide } = harness.kernel;
    // The second child is denied in the commit that creates all three.
    let checks = 0;
    Object.assign(harness.kernel, {
      decide: (request: Parameters<typeof decide>[0]) =>
        checks++ === 1 ? { effect: "deny", ruleId: "r", reason: "not this one", snapshot: "s" } : decide(request),
    });
    await harness.apply(engine, flow(failure));
    const id = await harness.started(engine, "mixed", { input: ["a", "b", "c"] });
    expect(harness.runOf(id).steps.each?.fan).toMatchObject(counts);
    const jobs = await Promise.all([0, 1, 2].map((at) => harness.job(`${id}:each.${at}@1`).catch(() => null)));
    expect(jobs[1]).toMatchObject({ state: "DENIED", error: { message: "not this one" } });
    // Siblings that the same commit stops are never created.
    for (const sibling of [jobs[0], jobs[2]]) {
      if (siblings === "CANCELLED") expect(sibling).toBeNull();
      else expect(sibling).toMatchObject({ state: siblings });
    }
  });
});
