// Rollouts of a live control plane: one is proved and promoted across a kill of every process, one is rolled back.
import { afterAll, expect, test, vi } from "vitest";
import type { Arms } from "../../../src/core/model/arms.ts";
import { armOf } from "../../../src/core/rollout/arm.ts";
import { cordum } from "../../cli/run.ts";
import type { Answer } from "../api.ts";
import { beginJobOf, ContendedRuns } from "./contended-runs.ts";
import { metricsOf, type RolloutSystem, startCluster, startEmbedded } from "./rollout-system.ts";
import { jobArms, runArms, type StoredRollout, storedRollout, withStore } from "./stored-rollout.ts";

const ROLLOUT = { class: "lock_busy", share: 0.5, horizon_ms: 2_000, gates: ["run_lock_wait_p95<=1.2x"] };
const BETTER = "bounded:100ms:0.5";
const WORSE = "fixed:1s";
/** 100 control units set the scale; then the gate on results, the slowest, is proved in about 60 blocks of 4 units. */
const RUNS_TO_PROOF = 460;
/** As above; then 12 blocks if every treatment unit is worse, and more on a busy machine, where control units are slow too. */
const RUNS_TO_BREACH = 290;
/** More of them if the decision needs more. */
const RUNS_MORE = 60;
const RUNS_MAX = 1_500;
const HELD_RUNS = 20;

const opened: RolloutSystem[] = [];
afterAll(() => Promise.all(opened.map((system) => system.remove())));

// Concurrent, because each test waits for horizons, the judge and restarts.
for (const [name, start] of [
  ["embedded", startEmbedded],
  ["NATS and Redis with 3 control processes", () => startCluster()],
] as const) {
  test.concurrent(`promotes a proved rollout and rolls back a breach on ${name}`, () => check(start), 600_000);
}

async function check(start: () => Promise<RolloutSystem>): Promise<void> {
  const system = await start();
  opened.push(system);
  const runs = new ContendedRuns(system);
  await runs.open();
  try {
    const proved = await provedAcrossKill(system, runs);
    const unenrolled = await promoted(system, runs);
    const worse = await rolledBack(system, runs);
    expect(new Set(await system.stop())).toEqual(new Set([0]));
    await withStore(system.backend, async (world) => {
      const [first, second] = [await storedRollout(world, "R1"), await storedRollout(world, "R2")];
      expectCounted(first);
      expectCounted(second);
      // Every unit of the proved rollout was judged, once, in the arm it had before the kill.
      expect([...first.arms.keys()].sort()).toEqual([...proved.runIds].sort());
      expect(unitsIn(first.judgement)).toEqual(armCounts(first.arms, "R1"));
      expect([...proved.before.arms].map(([id]) => [id, first.arms.get(id)])).toEqual([...proved.before.arms]);
      expect(await jobArms(world, proved.jobIds)).toEqual(proved.jobArms);
      expect(first.rollout.state).toBe("promoted");
      expect(new Set(await runArms(world, [...unenrolled, ...worse.unenrolled]))).toEqual(new Set([undefined]));
      // Runs that started after the rollback have no arm. The breach reached every process within a minute.
      expect(worse.runIds).toEqual(expect.arrayContaining([...second.arms.keys()]));
      expect(second.judgement.breach).not.toBeNull();
      const breachMs = second.judgement.breach?.atMs ?? 0;
      expect(worse.auditedMs - breachMs).toBeLessThanOrEqual(60_000);
      expect(worse.appliedMs - breachMs).toBeLessThanOrEqual(60_000);
    });
  } finally {
    await runs.close();
  }
}

interface Proved {
  readonly runIds: readonly string[];
  /** As stored while every process was down. */
  readonly before: StoredRollout;
  readonly jobIds: readonly string[];
  readonly jobArms: readonly unknown[];
}

/** Kills every process with `kill -9` after the first units are judged, while others are in progress. */
async function provedAcrossKill(system: RolloutSystem, runs: ContendedRuns): Promise<Proved> {
  await startRollout(system, BETTER);
  const load = runs.run(RUNS_TO_PROOF);
  await system.api.until("/rollouts/R1", ({ body }) => unitsOf(body) > 0);
  const held = await runs.hold(HELD_RUNS);
  await system.kill();
  const jobIds = held.map(beginJobOf);
  const stored = await withStore(system.backend, async (world) => ({
    before: await storedRollout(world, "R1"),
    jobArms: await jobArms(world, jobIds),
  }));
  const { before } = stored;
  expectCounted(before);
  expect(before.arms.size).toBeGreaterThanOrEqual(HELD_RUNS + judgedIn(before));
  expect(stored.jobArms).toEqual(held.map((runId) => before.arms.get(runId)));
  const rule = { salt: before.rollout.salt, share: 0.5, switchMs: null };
  for (const [id, arms] of before.arms) expect(arms.R1?.arm).toBe(armOf(rule, id, 0));
  runs.release();
  await system.restart();
  const runIds = await decided(system, runs, "R1", [...held, ...(await load)]);
  const { body } = await system.api.get("/rollouts/R1");
  expect(body).toMatchObject({ state: "proved", updated_by: "cordum" });
  return { runIds, jobIds, ...stored };
}

/** Every process uses the promoted policy, and new runs have no arm. */
async function promoted(system: RolloutSystem, runs: ContendedRuns): Promise<readonly string[]> {
  const { status, body } = await system.api.post("/rollouts/R1/promote");
  expect({ status, state: body.state }).toEqual({ status: 200, state: "promoted" });
  await shown(system, "R1", LEVEL.promoted);
  const explain = ["config", "explain", "retry.lock_busy.policy", "--json"];
  const explained = JSON.parse((await cordum(explain, { CORDUM_URL: system.api.url })).out);
  expect(JSON.stringify(explained)).toMatch(/bounded:100ms:0\.5.*rollout R1, promoted by/);
  return runsWithoutArms(system, runs);
}

async function rolledBack(system: RolloutSystem, runs: ContendedRuns) {
  await startRollout(system, WORSE);
  const started = await runs.run(RUNS_TO_BREACH);
  const runIds = await decided(system, runs, "R2", started);
  const { body } = await system.api.get("/rollouts/R2");
  expect(body).toMatchObject({ state: "rolled_back", updated_by: "cordum" });
  expect(body.reason).toMatch(
    /^gate \S+ breached: .* in treatment and .* in control .*e-value [\d.e+]+ ≥ 100 after \d+ /,
  );
  await shown(system, "R2", LEVEL.rolledBack);
  const appliedMs = Date.now();
  const isEntry = ({ what, facts }: Answer["body"]) => what === "rolled_back" && facts.rollout === "R2";
  const audit = await system.api.until("/audit?system=true&limit=50", (answer) => answer.body.items.some(isEntry));
  const entry = audit.body.items.find(isEntry);
  expect(entry).toMatchObject({ kind: "rollout", who: "cordum", facts: { reason: body.reason } });
  const unenrolled = await runsWithoutArms(system, runs);
  return { runIds, appliedMs, auditedMs: Date.parse(entry.at), unenrolled };
}

async function startRollout({ api }: RolloutSystem, policy: string): Promise<void> {
  const { status, body } = await api.post("/rollouts", { ...ROLLOUT, policy });
  if (status !== 200) throw new Error(JSON.stringify(body));
}

/** Starts more runs until the rollout is decided, and waits until a proved one has judged all of them. */
async function decided(system: RolloutSystem, runs: ContendedRuns, id: string, started: readonly string[]) {
  const runIds = [...started];
  for (;;) {
    const isJudged = (body: Answer["body"]) => body.state === "rolled_back" || unitsOf(body) >= runIds.length;
    const { body } = await system.api.until(`/rollouts/${id}`, (answer) => isJudged(answer.body));
    if (body.state !== "running") return runIds;
    if (runIds.length > RUNS_MAX) throw new Error(`not decided: ${JSON.stringify(body)}`);
    runIds.push(...(await runs.run(RUNS_MORE)));
  }
}

/** Runs until every process has used a retry policy for them: it is the promoted one everywhere. */
async function runsWithoutArms(system: RolloutSystem, runs: ContendedRuns): Promise<readonly string[]> {
  const runIds: string[] = [];
  const before = await busyRetries(system);
  for (;;) {
    runIds.push(...(await runs.run(RUNS_MORE / 4)));
    const delta = (await busyRetries(system)).map((now, at) => ({
      bounded: now.bounded - (before[at]?.bounded ?? 0),
      fixed: now.fixed - (before[at]?.fixed ?? 0),
    }));
    expect(delta.map(({ fixed }) => fixed)).toEqual(delta.map(() => 0));
    if (delta.every(({ bounded }) => bounded > 0)) return runIds;
    if (runIds.length > RUNS_MAX) throw new Error(`not every process retried: ${JSON.stringify(delta)}`);
  }
}

function busyRetries({ controls }: RolloutSystem) {
  return Promise.all(
    controls.map(async (url) => {
      const counts = { bounded: 0, fixed: 0 };
      for (const [name, value] of await metricsOf(url)) {
        const [, policy] = /^cordum_lock_busy_retries_total\{.*policy="(bounded|fixed)"/.exec(name) ?? [];
        if (policy === "bounded" || policy === "fixed") counts[policy] += value;
      }
      return counts;
    }),
  );
}

/** Waits until every process shows the state. */
async function shown({ controls }: RolloutSystem, id: string, level: number): Promise<void> {
  const shownBy = async (url: string) => (await metricsOf(url)).get(`cordum_rollout_state{rollout="${id}"}`);
  for (const url of controls) {
    // `expect.poll` belongs to one test at a time, and these are concurrent.
    await vi.waitUntil(async () => (await shownBy(url)) === level, { timeout: 60_000, interval: 50 });
  }
}

/** The judgement is that of all units in one call: none is missing, none counts twice. */
const expectCounted = ({ judgement, atOnce }: StoredRollout): void => expect(judgement).toEqual(atOnce);

const judgedIn = ({ judgement: { arms } }: StoredRollout): number => arms.control.units + arms.treatment.units;
const unitsIn = ({ arms }: StoredRollout["judgement"]) => ({
  control: arms.control.units,
  treatment: arms.treatment.units,
});
const unitsOf = ({ arms }: Answer["body"]): number => arms.control.units + arms.treatment.units;

function armCounts(arms: ReadonlyMap<string, Arms>, id: string) {
  const counts = { control: 0, treatment: 0 };
  for (const own of arms.values()) counts[own[id]?.arm ?? "control"] += 1;
  return counts;
}

const LEVEL = { promoted: 4, rolledBack: 5 };
