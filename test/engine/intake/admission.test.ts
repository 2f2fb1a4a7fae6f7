import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { isRunFinal, RUN_RESERVATIONS, RUNS } from "../../../src/core/model/run.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { admissionLockOf } from "../../../src/engine/intake/admission-lock.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { type StartOutcome, startRun } from "../../../src/engine/intake/start-run.ts";
import { RolloutRegistry } from "../../../src/engine/rollouts/index.ts";
import { cancelRun } from "../../../src/engine/runs/control-run.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { withRecordedMetrics } from "../observe/recorded-metrics.ts";
import { RUN_REQUEST, RunHarness } from "../run-harness.ts";

/** A run of it stays open until its approval is decided. */
const APPROVAL = { id: "ask", steps: { ask: { type: "approval" } } };
const ATOMIC = "atomic";
const FIXED = "polled fixed:10ms";
const JITTERED = "polled bounded:10ms:0.5";

test("a burst against two slots takes few decisions; the other starts share the refusal", async () => {
  const { harness, engines } = await openEngines(ATOMIC, 1);
  let decisions = 0;
  harness.sim.net.onCommit = (_, { puts }) => {
    decisions += puts.filter(({ table, expect }) => table === RUNS.name && expect === 0).length;
  };
  const outcomes = await startMany(harness, engines, 100);
  expect(tally(outcomes)).toEqual({ started: 2, full: 98 });
  // Each start loads its workflow first, so the starts do not arrive in the same tick.
  expect(decisions).toBeLessThanOrEqual(25);
});

test("L21: in a refused burst, a replay of an admitted key returns its run", async () => {
  const { harness, engines } = await openEngines(ATOMIC, 1);
  const [engine] = engines as [Engine];
  const start = (idempotencyKey: string | null) =>
    startRun(engine, { ...RUN_REQUEST, workflowId: "ask", idempotencyKey }, "test");
  // Two of the keys are admitted; the other starts with these keys are queued meanwhile.
  const keys = Array.from({ length: 80 }, (_, at) => "abcd"[at % 4] ?? null);
  const outcomes = await harness.run(Promise.all(keys.map(start)));
  const tallies = ["a", "b", "c", "d"].map((key) => tally(outcomes.filter((_, at) => keys[at] === key)));
  const isAdmitted = ({ started = 0 }: Record<string, number>) => started > 0;
  expect(tallies.filter(isAdmitted)).toEqual(Array(2).fill({ started: 1, replayed: 19 }));
  expect(tallies.filter((one) => !isAdmitted(one))).toEqual(Array(2).fill({ full: 20 }));
});

describe.each([ATOMIC, FIXED, JITTERED])("a limit of 2 runs, %s", (strategy) => {
  test.each([10, 100])(
    "%i concurrent starts in four processes admit exactly 2 and report the limit to the others",
    async (count) => {
      const { harness, engines } = await openEngines(strategy, 4);
      const outcomes = await startMany(harness, engines, count);
      expect(tally(outcomes)).toEqual({ started: 2, full: count - 2 });
      const full = outcomes.filter(({ kind }) => kind === "full");
      expect(full).toEqual(Array(count - 2).fill({ kind: "full", current: 2, limit: 2 }));
      expect(openRuns(harness)).toHaveLength(2);
    },
  );

  test("a run that ends frees one slot", async () => {
    const { harness, engines } = await openEngines(strategy, 2);
    const [first] = (await startMany(harness, engines, 10)).flatMap((outcome) => idIn(outcome));
    await harness.run(cancelRun(engines[0]!, { org: "default", runId: first ?? "", by: "bob", why: "enough" }));
    expect(tally(await startMany(harness, engines, 10))).toEqual({ started: 1, full: 9 });
  });

  test("L25: the run limit applies to reruns", async () => {
    const { harness, engines } = await openEngines(strategy, 1);
    const [engine] = engines as [Engine];
    const [first = ""] = (await startMany(harness, engines, 2)).flatMap((outcome) => idIn(outcome));
    await harness.run(cancelRun(engine, { org: "default", runId: first, by: "bob", why: "enough" }));
    const request = { org: "default", runId: first, fromStep: "ask", by: "bob", idempotencyKey: null };
    expect(await harness.run(rerun(engine, request))).toMatchObject({ kind: "started" });
    expect(await harness.run(rerun(engine, request))).toEqual({ kind: "full", current: 2, limit: 2 });
  });

  test("is counted per tenant, and a tenant's own limit overrides the default", async () => {
    const orgs = { big: { limits: { concurrentRunsMax: 5 } } };
    const { harness, engines } = await openEngines(strategy, 2, { orgs });
    for (const org of ["big", "small"]) await harness.apply(engines[0]!, APPROVAL, org);
    expect(tally(await startMany(harness, engines, 10, "big"))).toEqual({ started: 5, full: 5 });
    expect(tally(await startMany(harness, engines, 10, "small"))).toEqual({ started: 2, full: 8 });
  });

  test("a change applies to runs that are already open", async () => {
    const { harness, engines } = await openEngines(strategy, 1);
    const live = { current: harness.settings };
    const changed = engines.map((engine) =>
      composeEngine({ ...engine, settings: new RolloutRegistry(live, engine.world) }),
    );
    const limit = (concurrentRunsMax: number) => {
      live.current = { ...harness.settings, limits: { ...harness.settings.limits, concurrentRunsMax } };
    };
    limit(3);
    expect(tally(await startMany(harness, changed, 10))).toEqual({ started: 3, full: 7 });
    limit(1);
    const [outcome] = await startMany(harness, changed, 1);
    expect(outcome).toEqual({ kind: "full", current: 3, limit: 1 });
    limit(4);
    expect(tally(await startMany(harness, changed, 10))).toEqual({ started: 1, full: 9 });
    limit(0);
    expect(tally(await startMany(harness, changed, 3))).toEqual({ full: 3 });
  });
});

describe("an admission lock that stays held", () => {
  test.each([FIXED, JITTERED])("refuses the start after 2 s and leaves no records: %s", async (strategy) => {
    const { harness, engines } = await openEngines(strategy, 1);
    const [engine] = engines as [Engine];
    const other = harness.engine("other");
    const request = { key: admissionLockOf("default"), org: "default", ttlMs: 10_000, waitMs: 0, owner: "other" };
    await harness.run(other.world.locks.acquire(request));
    const outcome = await harness.start(engine, "ask", { idempotencyKey: "k" });
    expect(outcome).toMatchObject({ kind: "gate_unavailable" });
    const waitedMs = outcome.kind === "gate_unavailable" ? outcome.waitedMs : 0;
    expect(waitedMs).toBeGreaterThan(1_900);
    // Both ends are rounded to whole milliseconds.
    expect(waitedMs).toBeLessThanOrEqual(2_001);
    expect([...harness.sim.net.store.rows(RUNS)]).toEqual([]);
    expect([...harness.sim.net.store.rows(RUN_RESERVATIONS)]).toEqual([]);
    harness.crash("other");
    await harness.pass(10_000);
    expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "started" });
  });

  test("does not affect atomic admission", async () => {
    const { harness, engines } = await openEngines(ATOMIC, 1);
    const other = harness.engine("other");
    const request = { key: admissionLockOf("default"), org: "default", ttlMs: 10_000, waitMs: 0, owner: "other" };
    await harness.run(other.world.locks.acquire(request));
    expect(tally(await startMany(harness, engines, 10))).toEqual({ started: 2, full: 8 });
  });
});

describe("L25: the run limit applies to sub-workflows", () => {
  const OUTER = { id: "outer", steps: { sub: { type: "subworkflow", workflow: "ask" } } };

  test("a sub-workflow waits for a slot with a reason, and starts when one is freed", async () => {
    const { harness, engines } = await openEngines(ATOMIC, 1);
    const [engine] = engines as [Engine];
    await harness.apply(engine, OUTER);
    const first = await harness.started(engine, "ask");
    const outer = await harness.started(engine, "outer");
    await harness.pass(20_000);
    expect(await harness.job(`${outer}:sub@1`)).toMatchObject({
      state: "PENDING",
      wait: { retryClass: "throttled", reason: "2 of 2 runs of `default` are open, including the parent" },
    });
    expect(openRuns(harness)).toHaveLength(2);
    await harness.run(cancelRun(engine, { org: "default", runId: first, by: "bob", why: "enough" }));
    await harness.pass(60_000);
    const { state, step } = await harness.job(`${outer}:sub@1`);
    expect(state).toBe("RUNNING");
    expect(harness.runOf(step?.subRunId ?? "")).toMatchObject({ state: "RUNNING", parent: { runId: outer, depth: 1 } });
    expect(openRuns(harness)).toHaveLength(2);
  });

  test("a sub-workflow waiting for a slot ends with its parent", async () => {
    const { harness, engines } = await openEngines(ATOMIC, 1);
    const [engine] = engines as [Engine];
    await harness.apply(engine, OUTER);
    const first = await harness.started(engine, "ask");
    const outer = await harness.started(engine, "outer");
    await harness.pass(5_000);
    for (const runId of [outer, first]) {
      await harness.run(cancelRun(engine, { org: "default", runId, by: "bob", why: "enough" }));
    }
    await harness.pass(120_000);
    expect(openRuns(harness)).toEqual([]);
    expect([...harness.sim.net.store.rows(RUNS)]).toHaveLength(2);
  });
});

test("records the wait by tenant and endpoint and counts refusals by reason", async () => {
  const { harness, engines } = await openEngines(ATOMIC, 1);
  const { engine, recorded } = withRecordedMetrics(engines[0]!);
  const begin = (request: object, endpoint = "/api/v1/workflows/:id/runs") =>
    startRun(engine, { ...RUN_REQUEST, workflowId: "ask", ...request }, endpoint);
  await harness.run(begin({ idempotencyKey: "k" }));
  await harness.run(begin({ idempotencyKey: "k" }));
  await harness.run(begin({ idempotencyKey: "k", input: 2 }));
  await harness.run(begin({}, "cli"));
  await harness.run(begin({}, "cli"));
  await harness.run(begin({ workflowId: "gone" }));
  const store = around(engine.world.store, { commit: () => Promise.reject(new Error("unavailable")) });
  const away = startRun(
    composeEngine({ ...engine, world: { ...engine.world, store } }),
    { ...RUN_REQUEST, workflowId: "ask" },
    "cli",
  );
  await expect(harness.run(away)).rejects.toThrow("unavailable");
  const waits = "cordum_admission_wait_seconds default";
  expect(recorded.get(`${waits} /api/v1/workflows/:id/runs`)).toHaveLength(4);
  expect(recorded.get(`${waits} cli`)).toHaveLength(3);
  for (const reason of ["conflict", "full", "no_workflow", "unavailable"]) {
    expect(recorded.get(`cordum_admission_rejected_total ${reason}`)).toEqual([1]);
  }
});

/** Engines that admit runs at a limit of 2. */
async function openEngines(strategy: string, count: number, settings: Partial<Settings> = {}) {
  const { limits, admission } = defaultSettings();
  const [kind, policy] = strategy.split(" ");
  const polled = { ...admission.polled, ...(policy === undefined ? {} : { policy: parsePolicy(policy) }) };
  const harness = new RunHarness({
    limits: { ...limits, concurrentRunsMax: 2 },
    admission: { strategy: kind === "polled" ? "polled" : "atomic", polled },
    ...settings,
  });
  const engines: Engine[] = [];
  for (let at = 1; at <= count; at++) engines.push((await harness.control(`c${at}`)).engine);
  await harness.apply(engines[0]!, APPROVAL);
  return { harness, engines };
}

function startMany(
  harness: RunHarness,
  engines: readonly Engine[],
  count: number,
  org = "default",
): Promise<StartOutcome[]> {
  const request = { ...RUN_REQUEST, org, workflowId: "ask" };
  const starts = Array.from({ length: count }, (_, at) => startRun(engines[at % engines.length]!, request, "test"));
  return harness.run(Promise.all(starts));
}

const openRuns = (harness: RunHarness) =>
  [...harness.sim.net.store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state));
const idIn = (outcome: StartOutcome) => (outcome.kind === "started" ? [outcome.runId] : []);

function tally(outcomes: readonly StartOutcome[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { kind } of outcomes) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}
