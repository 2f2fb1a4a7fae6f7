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
import { RUN_REQUEST, RunHarness } from "../run-harness.ts";

const APPROVAL = { id: "ask", steps: { ask: { type: "approval" } } };

describe.each(["atomic", "polled"] as const)("idempotency key, %s admission", (strategy) => {
  test.each([1, 10])(
    "50 concurrent starts with one key at a limit of %i create one run and all return it",
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

  test("L21: a replay is answered at the run limit and while the admission lock is held", async () => {
    const { harness, engines } = await open(strategy, 1, 1);
    const [engine] = engines as [Engine];
    const runId = await harness.started(engine, "ask", { idempotencyKey: "k", input: { a: 1, b: 2 } });
    const again = { idempotencyKey: "k", input: { b: 2, a: 1 } };
    expect(await harness.start(engine, "ask", again)).toEqual({ kind: "replayed", runId, state: "RUNNING" });
    expect(await harness.start(engine, "ask")).toMatchObject({ kind: "full" });
    await holdAdmissionLock(harness);
    expect(await harness.start(engine, "ask", again)).toMatchObject({ kind: "replayed", runId });
  });

  test("L21: a replay of a rerun is answered while the admission lock is held", async () => {
    const { harness, engines } = await open(strategy, 1, 1);
    const [engine] = engines as [Engine];
    const first = await harness.started(engine, "ask");
    await harness.run(cancelRun(engine, { org: "default", runId: first, by: "bob", why: "enough" }));
    const request = { org: "default", runId: first, fromStep: "ask", by: "bob", idempotencyKey: "k" };
    const made = await harness.run(rerun(engine, request));
    if (made.kind !== "started") throw new Error(made.kind);
    const replayed = { kind: "replayed", runId: made.runId, state: "RUNNING" };
    expect(await harness.run(rerun(engine, request))).toEqual(replayed);
    await holdAdmissionLock(harness);
    expect(await harness.run(rerun(engine, request))).toEqual(replayed);
    expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toEqual({
      kind: "conflict",
      runId: made.runId,
    });
  });

  test("another body under the same key conflicts and creates nothing", async () => {
    const { harness, engines } = await open(strategy, 1, 10);
    const [engine] = engines as [Engine];
    await harness.apply(engine, { ...APPROVAL, id: "other" });
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
    // Submitter and trace are not part of the request body.
    const same = { idempotencyKey: "k", input: 1, traceId: "t", submittedBy: "bob", traceparent: "p" };
    expect(await harness.start(engine, "ask", same)).toMatchObject({ kind: "replayed", runId });
    expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(1);
  });
});

test("L22: keys are scoped to the tenant, whatever characters the names contain", async () => {
  const { harness, engines } = await open("atomic", 1, 10);
  const [engine] = engines as [Engine];
  const runs: string[] = [];
  const keys = [
    ["a", "b/c"],
    ["a", "c"],
    ["b", "c"],
  ] as const;
  for (const [org, idempotencyKey] of keys) {
    await harness.apply(engine, APPROVAL, org);
    runs.push(await harness.started(engine, "ask", { org, idempotencyKey }));
  }
  expect(new Set(runs).size).toBe(3);
});

test("a replay is answered after its workflow is deleted and after its run has ended", async () => {
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

test("a key is free again after its retention", async () => {
  const harness = new RunHarness({ retention: { ...defaultSettings().retention, idempotencyMs: 30_000 } });
  const { engine } = await harness.control("c1");
  await harness.apply(engine, APPROVAL);
  const first = await harness.started(engine, "ask", { idempotencyKey: "k" });
  await harness.pass(29_000);
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "replayed" });
  await harness.pass(31_000);
  const second = await harness.start(engine, "ask", { idempotencyKey: "k" });
  expect(second).toMatchObject({ kind: "started" });
  expect("runId" in second && second.runId).not.toBe(first);
});

test("a refused start does not reserve its key", async () => {
  const { harness, engines } = await open("atomic", 1, 1);
  const [engine] = engines as [Engine];
  const first = await harness.started(engine, "ask");
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "full" });
  expect(await harness.start(engine, "gone", { idempotencyKey: "k" })).toEqual({ kind: "no_workflow" });
  await harness.run(cancelRun(engine, { org: "default", runId: first, by: "bob", why: "enough" }));
  expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "started" });
});

describe.each(["atomic", "polled"] as const)("L23, L24: a process crashes during admission, %s", (strategy) => {
  // Each pass crashes the process after one more store or lock call has taken effect, before its answer arrives.
  test("key, slot, run and first job exist together or not at all", async () => {
    let crashes = 0;
    for (let crashCall = 1; ; crashCall++) {
      const { harness, engines } = await open(strategy, 1, 2);
      const crashing = composeEngine({ ...engines[0]!, world: crashingAt(harness, engines[0]!, crashCall) });
      let isAnswered = false;
      void startRun(crashing, { ...RUN_REQUEST, workflowId: "ask", idempotencyKey: "k" }, "test").then(() => {
        isAnswered = true;
      });
      await harness.pass(1_000);
      const { store } = harness.sim.net;
      const runs = [...store.rows(RUNS)].map(({ id }) => id);
      expect([...store.rows(RUN_RESERVATIONS)].map(({ value }) => value.runId)).toEqual(runs);
      expect([...store.rows(JOBS)].map(({ value }) => value.step?.runId)).toEqual(runs);
      expect(store.count(RUNS_GROUP, "default")).toBe(runs.length);
      // A later start replays that run or creates it.
      const { engine } = await harness.control("c9");
      await harness.pass(harness.settings.admission.polled.ttlMs);
      const kind = runs.length === 0 ? "started" : "replayed";
      expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind });
      expect(await harness.start(engine, "ask")).toMatchObject({ kind: "started" });
      expect(await harness.start(engine, "ask")).toMatchObject({ kind: "full", current: 2 });
      if (isAnswered) break;
      crashes += 1;
    }
    expect(crashes).toBeGreaterThan(2);
  });
});

/** A world whose process crashes at its n-th store or lock call. */
function crashingAt(harness: RunHarness, engine: Engine, crashCall: number): Engine["world"] {
  let calls = 0;
  const crashingPort = <T extends object>(port: T): T =>
    new Proxy(port, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        return (...context: unknown[]) => {
          calls += 1;
          const answer: unknown = value.apply(target, context);
          if (calls === crashCall) harness.crash("c1");
          return answer;
        };
      },
    });
  return { ...engine.world, store: crashingPort(engine.world.store), locks: crashingPort(engine.world.locks) };
}

async function open(strategy: "atomic" | "polled", count: number, limit: number) {
  const { limits, admission } = defaultSettings();
  const harness = new RunHarness({
    limits: { ...limits, concurrentRunsMax: limit },
    admission: { ...admission, strategy },
  });
  const engines: Engine[] = [];
  for (let at = 1; at <= count; at++) engines.push((await harness.control(`c${at}`)).engine);
  await harness.apply(engines[0]!, APPROVAL);
  return { harness, engines };
}

const begin = (engine: Engine, request: Partial<RunRequest>) =>
  startRun(engine, { ...RUN_REQUEST, workflowId: "ask", ...request }, "test");

async function holdAdmissionLock(harness: RunHarness): Promise<void> {
  const request = { key: admissionLockOf("default"), org: "default", ttlMs: 10_000, waitMs: 0, owner: "other" };
  await harness.run(harness.engine("other").world.locks.acquire(request));
}
