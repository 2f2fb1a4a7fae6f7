import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { RUN_RESERVATIONS, RUNS, RUNS_GROUP } from "../../../src/core/model/run.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { admissionLockOf } from "../../../src/engine/intake/admission-lock.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { type RunRequest, startRun } from "../../../src/engine/intake/start-run.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { deleteWorkflow } from "../../../src/engine/runs/workflows.ts";
import { RunHarness, RUN_REQUEST } from "../run-harness.ts";

const ASK = { id: "ask", steps: { ask: { type: "approval" } } };

describe.each(["atomic", "polled"] as const)("a key, %s", (strategy) => {
  test.each([1, 10])(
    "50 that race with one key at a limit of %i make one run, and all are told of it",
    async (limit) => {
      const { harness, engines } = await open(strategy, 3, limit);
      const racing = Array.from({ length: 50 }, (_, at) => begin(engines[at % 3]!, { idempotencyKey: "k" }));
      const outcomes = await harness.run(Promise.all(racing));
      const kinds = outcomes.map(({ kind }) => kind).sort();
      expect(kinds).toEqual([...Array(49).fill("replayed"), "started"]);
      expect(new Set(outcomes.map((outcome) => "runId" in outcome && outcome.runId)).size).toBe(1);
      expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(1);
      expect([...harness.sim.net.store.rows(JOBS)]).toHaveLength(1);
    },
  );

  test("L21: a replay is answered when the org is full, and when the gate is stuck", async () => {
    const { harness, engines } = await open(strategy, 1, 1);
    const [engine] = engines as [Engine];
    const runId = await harness.started(engine, "ask", { idempotencyKey: "k", input: { a: 1, b: 2 } });
    const again = { idempotencyKey: "k", input: { b: 2, a: 1 } };
    expect(await harness.start(engine, "ask", again)).toEqual({ kind: "replayed", runId, state: "RUNNING" });
    expect(await harness.start(engine, "ask")).toMatchObject({ kind: "full" });
    await holdGate(harness);
    expect(await harness.start(engine, "ask", again)).toMatchObject({ kind: "replayed", runId });
  });

  test("L21: so is the replay of a rerun", async () => {
    const { harness, engines } = await open(strategy, 1, 1);
    const [engine] = engines as [Engine];
    const first = await harness.started(engine, "ask");
    await harness.run(cancelRun(engine, { org: "default", runId: first, by: "bob", why: "enough" }));
    const request = { org: "default", runId: first, fromStep: "ask", by: "bob", idempotencyKey: "k" };
    const made = await harness.run(rerun(engine, request));
    if (made.kind !== "started") throw new Error(made.kind);
    const replayed = { kind: "replayed", runId: made.runId, state: "RUNNING" };
    expect(await harness.run(rerun(engine, request))).toEqual(replayed);
    await holdGate(harness);
    expect(await harness.run(rerun(engine, request))).toEqual(replayed);
    expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toEqual({
      kind: "conflict",
      runId: made.runId,
    });
  });

  test("another body under the same key conflicts, whatever differs, and makes nothing", async () => {
    const { harness, engines } = await open(strategy, 1, 10);
    const [engine] = engines as [Engine];
    await harness.apply(engine, { ...ASK, id: "other" });
    const runId = await harness.started(engine, "ask", { idempotencyKey: "k", input: 1 });
    const others: Partial<RunRequest>[] = [
      { input: 2 },
      { workflowId: "other" },
      { version: 1 },
      { labels: { a: "b" } },
      { priority: "critical" },
      { actorId: "robot" },
    ];
    for (const other of others) {
      const request = { idempotencyKey: "k", input: 1, ...other };
      expect(await harness.start(engine, other.workflowId ?? "ask", request)).toEqual({ kind: "conflict", runId });
    }
    // Who asks, and in which trace, is no part of what is asked for.
    const same = { idempotencyKey: "k", input: 1, traceId: "t", submittedBy: "bob", traceparent: "p" };
    expect(await harness.start(engine, "ask", same)).toMatchObject({ kind: "replayed", runId });
    expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(1);
  });
});

test("L22: the same key of another tenant is another key, whatever the names look like", async () => {
  const { harness, engines } = await open("atomic", 1, 10);
  const [engine] = engines as [Engine];
  const runs: string[] = [];
  const uses = [
    ["a", "b/c"],
    ["a", "c"],
    ["b", "c"],
  ] as const;
  for (const [org, idempotencyKey] of uses) {
    await harness.apply(engine, ASK, org);
    runs.push(await harness.started(engine, "ask", { org, idempotencyKey }));
  }
  expect(new Set(runs).size).toBe(3);
});

test("a replay is answered when its workflow has been deleted, and when its run has ended", async () => {
  const { harness, engines } = await open("atomic", 1, 10);
  const [engine] = engines as [Engine];
  const runId = await harness.started(engine, "ask", { idempotencyKey: "k" });
  await harness.run(deleteWorkflow(engine, { org: "default", id: "ask", by: "bob" }));
  expect(await harness.start(engine, "ask")).toEqual({ kind: "no_workflow" });
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "replayed", runId });
  await harness.run(cancelRun(engine, { org: "default", runId, by: "bob", why: "enough" }));
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toEqual({
    kind: "replayed",
    runId,
    state: "CANCELLED",
  });
});

test("a key is free again when its time is over", async () => {
  const harness = new RunHarness({ retention: { ...defaultSettings().retention, idempotencyMs: 30_000 } });
  const { engine } = await harness.control("c1");
  await harness.apply(engine, ASK);
  const first = await harness.started(engine, "ask", { idempotencyKey: "k" });
  await harness.pass(29_000);
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "replayed" });
  await harness.pass(31_000);
  const second = await harness.start(engine, "ask", { idempotencyKey: "k" });
  expect(second).toMatchObject({ kind: "started" });
  expect("runId" in second && second.runId).not.toBe(first);
});

test("what is refused keeps no key: it may be asked for again", async () => {
  const { harness, engines } = await open("atomic", 1, 1);
  const [engine] = engines as [Engine];
  const first = await harness.started(engine, "ask");
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "full" });
  expect(await harness.start(engine, "gone", { idempotencyKey: "k" })).toEqual({ kind: "no_workflow" });
  await harness.run(cancelRun(engine, { org: "default", runId: first, by: "bob", why: "enough" }));
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "started" });
});

describe.each(["atomic", "polled"] as const)("L23, L24: a process dies while it admits, %s", (strategy) => {
  // A call of the store, or of its locks, at a time: the process dies when that one has taken effect, before it knows.
  test("wherever it dies, key, slot, run and first job are all there or none of them is", async () => {
    let dead = 0;
    for (let fatal = 1; ; fatal++) {
      const { harness, engines } = await open(strategy, 1, 2);
      const doomed = composeEngine({ ...engines[0]!, world: dyingAt(harness, engines[0]!, fatal) });
      let isAnswered = false;
      void startRun(doomed, { ...RUN_REQUEST, workflowId: "ask", idempotencyKey: "k" }, "test").then(() => {
        isAnswered = true;
      });
      await harness.pass(1_000);
      const { store } = harness.sim.net;
      const runs = [...store.rows(RUNS)].map(({ id }) => id);
      expect([...store.rows(RUN_RESERVATIONS)].map(({ value }) => value.runId)).toEqual(runs);
      expect([...store.rows(JOBS)].map(({ value }) => value.step?.runId)).toEqual(runs);
      expect(store.count(RUNS_GROUP, "default")).toBe(runs.length);
      // Whoever comes after it gets that run, or makes it.
      const { engine } = await harness.control("c9");
      await harness.pass(harness.settings.admission.polled.ttlMs);
      const kind = runs.length === 0 ? "started" : "replayed";
      expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind });
      expect(await harness.start(engine, "ask")).toMatchObject({ kind: "started" });
      expect(await harness.start(engine, "ask")).toMatchObject({ kind: "full", current: 2 });
      if (isAnswered) break;
      dead += 1;
    }
    expect(dead).toBeGreaterThan(2);
  });
});

/** The world of a process that dies with its n-th call to a server. */
function dyingAt(harness: RunHarness, engine: Engine, fatal: number): Engine["world"] {
  let calls = 0;
  const dying = <T extends object>(port: T): T =>
    new Proxy(port, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (...context: unknown[]) => {
          calls += 1;
          const answer: unknown = value.apply(target, context);
          if (calls === fatal) harness.crash("c1");
          return answer;
        };
      },
    });
  return { ...engine.world, store: dying(engine.world.store), locks: dying(engine.world.locks) };
}

async function open(strategy: "atomic" | "polled", count: number, limit: number) {
  const { limits, admission } = defaultSettings();
  const harness = new RunHarness({
    limits: { ...limits, concurrentRunsMax: limit },
    admission: { ...admission, strategy },
  });
  const engines: Engine[] = [];
  for (let at = 1; at <= count; at++) engines.push((await harness.control(`c${at}`)).engine);
  await harness.apply(engines[0]!, ASK);
  return { harness, engines };
}

const begin = (engine: Engine, request: Partial<RunRequest>) =>
  startRun(engine, { ...RUN_REQUEST, workflowId: "ask", ...request }, "test");

async function holdGate(harness: RunHarness): Promise<void> {
  const request = { key: admissionLockOf("default"), org: "default", ttlMs: 10_000, waitMs: 0, owner: "other" };
  await harness.run(harness.engine("other").world.locks.acquire(request));
}
