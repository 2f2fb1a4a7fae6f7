import { describe, expect, test } from "vitest";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUNS } from "../../../src/core/model/run.ts";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { openRun } from "../../../src/core/workflow/run/open-run.ts";
import { completeLeased } from "../../../src/engine/dispatch/job-lease.ts";
import { leaseJobs } from "../../../src/engine/dispatch/lease-jobs.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { dryRerun } from "../../../src/engine/observe/dry-rerun.ts";
import { dryRun } from "../../../src/engine/observe/dry-run.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { decideRun } from "../../../src/engine/runs/decide-run.ts";
import { timeline } from "../../../src/engine/runs/read-run.ts";
import { removeRun } from "../../../src/engine/runs/remove-run.ts";
import { deleteWorkflow, planOf } from "../../../src/engine/runs/workflows.ts";
import type { Change } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { RUN_REQUEST, RunHarness } from "../run-harness.ts";

const LARGE = "x".repeat(300_000);

async function open(limit = 10) {
  const harness = new RunHarness();
  Object.assign(harness.settings, { limits: { ...harness.settings.limits, concurrentRunsMax: limit } });
  const { engine } = await harness.control("c1");
  return { harness, engine };
}

describe("refused and removed runs", () => {
  test("starts, reruns and sub-workflows refused at the run limit leave no blobs", async () => {
    const { harness, engine } = await open(2);
    const t = { type: "transform", input: "${input}" };
    await harness.apply(engine, { id: "long", steps: { t, a: { type: "approval", depends_on: ["t"] } } });
    const sub = { type: "subworkflow", workflow: "long", input: LARGE };
    await harness.apply(engine, { id: "outer", steps: { sub } });
    const ended = await harness.started(engine, "long", { input: LARGE });
    const control = { org: "default", runId: ended, by: "bob", why: "enough" };
    expect(await harness.run(cancelRun(engine, control))).toMatchObject({ state: "CANCELLED" });
    await harness.started(engine, "long");
    await harness.started(engine, "outer");
    const before = [...harness.sim.net.blobs.keys()];
    expect(before.length).toBeGreaterThan(1);
    expect(await harness.start(engine, "long", { input: LARGE })).toMatchObject({ kind: "full" });
    const rerunRequest = { org: "default", runId: ended, fromStep: "a", by: "bob", idempotencyKey: null };
    expect(await harness.run(rerun(engine, rerunRequest))).toMatchObject({ kind: "full" });
    // The sub-workflow retries for its slot meanwhile.
    await harness.pass(60_000);
    expect([...harness.sim.net.blobs.keys()]).toEqual(before);
  });

  test("a start refused at the run limit is audited as not started", async () => {
    const { harness, engine } = await open(1);
    await harness.apply(engine, { id: "w", steps: { a: { topic: "demo.x" } } });
    await harness.started(engine, "w");
    expect(await harness.start(engine, "w")).toMatchObject({ kind: "full" });
    await harness.pass(5_000);
    expect(await auditLines(harness, engine, "decision")).toEqual(["alice allow", "alice allow", "alice not_started"]);
  });

  test("no version of a deleted workflow can be started", async () => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "w", steps: { a: { type: "approval" } } });
    const id = await harness.started(engine, "w", { version: 1 });
    await harness.run(deleteWorkflow(engine, { org: "default", id: "w", by: "bob" }));
    expect(await harness.start(engine, "w")).toEqual({ kind: "no_workflow" });
    expect(await harness.start(engine, "w", { version: 1 })).toEqual({ kind: "no_workflow" });
    expect(harness.runOf(id).state).toBe("RUNNING");
  });

  test("a removal is repeated after a stale commit", async () => {
    const { harness, engine } = await open();
    await harness.apply(engine, { id: "w", steps: { t: { type: "transform", input: 1 } } });
    const id = await harness.started(engine, "w");
    const changes: Change[] = [];
    const commit = async (change: Change) => {
      changes.push(change);
      if (changes.length === 1) return { kind: "stale", table: RUNS.name, id } as const;
      return engine.world.store.commit(change);
    };
    const { store } = engine.world;
    const decorated = composeEngine({
      ...engine,
      world: { ...engine.world, store: around(store, { commit }) },
    }) as Engine;
    expect(await harness.run(removeRun(decorated, { org: "default", runId: id, by: "bob" }))).toEqual({
      kind: "removed",
    });
    expect(harness.sim.net.store.load(RUNS, id)).toBeNull();
  });

  test("a run redriven during its removal keeps its timeline", async () => {
    const { harness, engine } = await open();
    await harness.worker("w1", ["demo.bad"], async () => {
      throw new Error("no");
    });
    const notifications = Array.from(
      { length: 60 },
      (_, at) => [`n${at}`, { type: "notify", message: "hello" }] as const,
    );
    const bad = { topic: "demo.bad", retry: { max_retries: 0 } };
    await harness.apply(engine, { id: "w", steps: { ...Object.fromEntries(notifications), bad } });
    const id = await harness.started(engine, "w");
    await harness.pass(5_000);
    expect(harness.runOf(id).state).toBe("FAILED");
    let isRevived = false;
    const commit = async (change: Change) => {
      if (!isRevived) {
        isRevived = true;
        await redriveDeadLetter(engine, { org: "default", id: `${id}:bad@1`, by: "bob" });
      }
      return store.commit(change);
    };
    const { store } = engine.world;
    const decorated = composeEngine({
      ...engine,
      world: { ...engine.world, store: around(store, { commit }) },
    }) as Engine;
    const outcome = await harness.run(removeRun(decorated, { org: "default", runId: id, by: "bob" }));
    expect(outcome).toMatchObject({ kind: "still_open" });
    const { lines } = await harness.run(timeline(engine, harness.runOf(id), { limit: 1_000 }));
    expect(lines.map(({ seq }) => seq)).toEqual(Array.from({ length: harness.runOf(id).lineCount }, (_, seq) => seq));
  });
});

describe("for_each", () => {
  test("children cancelled with the run block a redrive, with a reason", async () => {
    const { harness, engine } = await open();
    await harness.worker("w1", ["demo.bad"], async () => {
      throw new Error("broken");
    });
    const each = { type: "delay", delay_sec: 3_600, for_each: "${[1, 2]}" };
    const a = { topic: "demo.bad", retry: { max_retries: 0 } };
    await harness.apply(engine, { id: "w", steps: { each, a } });
    const id = await harness.started(engine, "w");
    await harness.pass(5_000);
    expect(harness.states(id)).toEqual({ each: "CANCELLED", a: "FAILED" });
    const outcome = await harness.run(redriveDeadLetter(engine, { org: "default", id: `${id}:a@1`, by: "bob" }));
    expect(outcome).toMatchObject({ kind: "run_went_on", why: expect.stringContaining("`each` was cancelled") });
    expect(harness.runOf(id).state).toBe("FAILED");
  });

  test("children are not created when the same decision ends their step", async () => {
    const { harness, engine } = await open();
    const each = { topic: "demo.x", for_each: "${[1, 2, 3]}" };
    const bad = { type: "transform", input: "${input.no.such}" };
    await harness.apply(engine, { id: "w", steps: { each, bad } });
    const outcome = await harness.start(engine, "w", { input: {} });
    expect(outcome).toMatchObject({ kind: "started", state: "FAILED" });
    expect([...harness.sim.net.store.rows(JOBS)]).toEqual([]);
  });

  test("a child whose output does not match its schema has no output", async () => {
    const { harness, engine } = await open();
    await harness.worker("w1", ["demo.echo"], async ({ input }) => input);
    const schema = { output_schema: { type: "integer" }, failure: { tolerate: 1 } };
    const each = { topic: "demo.echo", for_each: '${[1, "two", 3]}', ...schema };
    await harness.apply(engine, { id: "w", output: "${steps.each.output}", steps: { each } });
    const id = await harness.started(engine, "w");
    await harness.pass(5_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: [1, null, 3] } });
  });

  test("outputs are read up to a limit; beyond it the reader fails", async () => {
    const { harness, engine } = await open();
    await harness.worker("w1", ["demo.much"], async () => "y".repeat(2_000_000));
    const each = { topic: "demo.much", for_each: `\${[${Array.from({ length: 17 }, (_, at) => at).join()}]}` };
    const reader = {
      type: "transform",
      depends_on: ["each"],
      input: "${size(steps.each.output)}",
      on_error: "continue",
    };
    const other = { type: "transform", depends_on: ["each"], input: "${steps.each.state}" };
    await harness.apply(engine, { id: "w", steps: { each, reader, other } });
    const id = await harness.started(engine, "w");
    await harness.pass(10_000);
    expect(harness.states(id)).toEqual({ each: "SUCCEEDED", reader: "FAILED", other: "SUCCEEDED" });
    const message = expect.stringContaining("exceeds the read limit");
    expect(harness.runOf(id).steps.reader?.error).toMatchObject({ name: "ExpressionFailed", message });
  });

  test("an immediate step has one evaluation limit for all items", async () => {
    const { harness, engine } = await open();
    const input = "${size(input.numbers.filter(x, input.numbers.exists(y, y == x + 1000)))}";
    await harness.apply(engine, { id: "w", steps: { t: { type: "transform", for_each: "${input.numbers}", input } } });
    const id = await harness.started(engine, "w", { input: { numbers: Array.from({ length: 150 }, (_, at) => at) } });
    const message = expect.stringContaining("evaluation limit exceeded at item");
    expect(harness.runOf(id).steps.t).toMatchObject({ state: "FAILED", error: { name: "ExpressionFailed", message } });
  });

  test("an immediate step stops when its output exceeds the limit", async () => {
    const { harness, engine } = await open();
    const steps = { n: { type: "notify", for_each: "${input.items}", message: "${input.text}" } };
    await harness.apply(engine, { id: "w", steps });
    const plan = await harness.run(planOf(engine, "default", "w", 1));
    if (!plan) throw new Error("no plan");
    const input = { text: "x".repeat(100_000), items: Array.from({ length: 200 }, (_, at) => at) };
    const order = { ...RUN_REQUEST, runId: "r", version: 1, traceId: "r", parent: null };
    const run = openRun(
      plan,
      order,
      { kind: "inline", value: input },
      { nowMs: engine.world.clock.now(), deadlineMs: 60_000 },
    );
    const { run: after, notifications: sent } = await harness.run(
      decideRun(engine, plan, run, [{ kind: "time" }], new Set()),
    );
    expect(after.steps.n).toMatchObject({ state: "FAILED", error: { name: "TooLarge" } });
    expect(sent.length).toBeLessThan(30);
  });
});

test.each(["b@1", "b.12@1"])("rejects a job id reserved for a step (run:%s)", (step) => {
  const checked = checkSubmission({ org: "other", topic: "demo.x", jobId: `r1:${step}` });
  expect(checked).toMatchObject({ kind: "bad", problems: [expect.stringContaining("reserved for workflow steps")] });
  expect(checkSubmission({ topic: "demo.x", jobId: "order:7" }).kind).toBe("ok");
});

test("a dry run passes labels, actor and priority to the policy", async () => {
  const { harness, engine } = await open();
  await harness.apply(engine, { id: "w", steps: { a: { topic: "demo.x" } } });
  const runOptions = { labels: { env: "prod" }, priority: "critical", actorId: "agent-7" } as const;
  const id = await harness.started(engine, "w", runOptions);
  await harness.run(cancelRun(engine, { org: "default", runId: id, by: "bob", why: "enough" }));
  const requests: PolicyRequest[] = [];
  const { decide } = harness.kernel;
  harness.kernel.decide = (request) => {
    requests.push(request);
    return decide(request);
  };
  await harness.run(
    dryRun(engine, { org: "default", workflowId: "w", version: null, input: {}, by: "bob", ...runOptions }),
  );
  await harness.run(dryRerun(engine, { org: "default", runId: id, fromStep: "a", by: "bob" }));
  expect(requests).toHaveLength(2);
  for (const { labels, actorId } of requests) {
    expect(labels).toMatchObject({ env: "prod" });
    expect(actorId).toBe("agent-7");
  }
});

test("a result of an HTTP worker is kept as long as its run and reruns may need it", async () => {
  const { harness, engine } = await open();
  const days = (count: number) => count * 24 * 3_600;
  const wait = { type: "delay", delay_sec: days(20), depends_on: ["a"] };
  await harness.apply(engine, { id: "w", timeout_sec: days(30), steps: { a: { topic: "demo.http" }, wait } });
  const id = await harness.started(engine, "w");
  await harness.pass(1_000);
  const signal = new AbortController().signal;
  const request = { org: "default", workerId: "h1", topics: ["demo.http"], max: 1, waitMs: 0, signal };
  const [job] = await harness.run(leaseJobs(engine, request));
  if (!job) throw new Error("nothing was leased");
  await harness.run(completeLeased(engine, { org: "default", jobId: job.id, leaseId: job.leaseId ?? "" }, LARGE));
  const { steps, deadlineMs } = harness.runOf(id);
  expect(steps.a).toMatchObject({ state: "SUCCEEDED", output: { kind: "pointer" } });
  const { output } = await harness.job(job.id);
  const blob = harness.sim.net.blobs.get(output?.kind === "pointer" ? output.ptr : "");
  expect(blob?.expiresAtMs).toBeGreaterThan(deadlineMs + harness.settings.retention.runsMs);
});
