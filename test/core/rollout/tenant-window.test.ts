import { expect, test } from "vitest";
import { type Arm, armOf } from "../../../src/core/rollout/arm.ts";
import { type Judgement, judge, newJudgement } from "../../../src/core/rollout/judgement.ts";
import { NO_MEASURE, observe } from "../../../src/core/rollout/measure.ts";
import type { MeasuredUnit } from "../../../src/core/rollout/score.ts";
import { type AdmittedRun, KNOWN_MS, tenantArm, tenantUnits } from "../../../src/core/rollout/tenant-window.ts";
import { SeededRandom } from "../../../src/sim/random.ts";
import { rolloutWith } from "./fixtures.ts";

const WINDOW_MS = 60_000;
const MAX_WAIT_MS = 2_000;
const STARTED_MS = 1_000 * WINDOW_MS;
const FIRST_MS = STARTED_MS + 2 * WINDOW_MS;
const rollout = rolloutWith({
  ...{ subject: "admission.polled.policy", horizonMs: WINDOW_MS, startedMs: STARTED_MS, stagedMs: STARTED_MS },
  gates: [{ metric: "admission_wait_p95", ratio: 1.2 }],
});
const armAt = (ms: number, given: Partial<typeof rollout> = {}, org = "acme") =>
  tenantArm({ ...rollout, ...given }, org, ms, MAX_WAIT_MS);

test("the starts of a tenant in one window have one arm, and the windows independent ones", () => {
  const arms = Array.from({ length: 400 }, (_, at) => {
    const fromMs = FIRST_MS + at * WINDOW_MS;
    expect(armAt(fromMs + WINDOW_MS - 1).arm).toBe(armAt(fromMs).arm);
    return armAt(fromMs).arm;
  });
  const isTreated = (arm: Arm | undefined) => arm === "treatment";
  const repeated = arms.filter((arm, at) => isTreated(arm) && isTreated(arms[at + 1])).length;
  expect([arms.filter(isTreated).length, repeated]).toEqual([expect.closeTo(200, -1.9), expect.closeTo(100, -1.9)]);
});

test("starts that can compete with those of another window are not measured", () => {
  const untilMs = FIRST_MS + WINDOW_MS;
  expect(armAt(FIRST_MS + MAX_WAIT_MS)).toMatchObject({ untilMs });
  expect(armAt(untilMs - MAX_WAIT_MS - 1)).toMatchObject({ untilMs });
  for (const ms of [FIRST_MS, FIRST_MS + MAX_WAIT_MS - 1, untilMs - MAX_WAIT_MS, untilMs - 1]) {
    expect(armAt(ms)).not.toHaveProperty("untilMs");
  }
});

test("a window that began before every process knew the rollout or its stage belongs to the time before", () => {
  const ms = FIRST_MS + MAX_WAIT_MS;
  expect(armAt(ms, { startedMs: FIRST_MS - KNOWN_MS })).toHaveProperty("untilMs");
  expect(armAt(ms, { startedMs: FIRST_MS - KNOWN_MS + 1 })).not.toHaveProperty("untilMs");
  const staged = { stage: 1, shares: [0.1, 0.5] };
  expect(armAt(ms, { ...staged, stagedMs: FIRST_MS - KNOWN_MS }).stage).toBe(1);
  expect(armAt(ms, { ...staged, stagedMs: FIRST_MS - KNOWN_MS + 1 }).stage).toBe(0);
});

test("a unit has the waits of all its starts, and nothing that is stored after its window or happens to its runs", () => {
  const untilMs = FIRST_MS + WINDOW_MS;
  const run = (createdMs: number, waitedMs: number): AdmittedRun => {
    const admitted = observe(NO_MEASURE, { kind: "admitted", waitedMs });
    const measure = observe(admitted, { kind: "result", latencyMs: 5 });
    return { org: "acme", createdMs, arms: { R1: { arm: "control", stage: 0, untilMs } }, measures: { R1: measure } };
  };
  const runs = [run(FIRST_MS, 1), { ...run(FIRST_MS, 2), org: "other" }, run(untilMs - 1, 3), run(untilMs, 4)];
  expect(tenantUnits(rollout, runs)).toMatchObject([
    {
      id: `acme@${FIRST_MS / WINDOW_MS}`,
      startMs: FIRST_MS,
      measure: { admissionWaitsMs: { count: 2, values: [1, 3] } },
    },
    { startMs: FIRST_MS, measure: { admissionWaitsMs: { values: [2] }, latenciesMs: { count: 0 } } },
  ]);
});

/** `CORDUM_TRIALS=1000` for the figures of docs/rollouts.md. */
const TRIALS = Number(process.env.CORDUM_TRIALS ?? 20);
const TENANTS = 10;
/** Starts of a tenant in a window. */
const STARTS = 4;
const UNITS = 1_500;
const SHARE = 0.3;
/** The state of the judgement does not depend on how units are split. */
const BATCH = 150;

interface Trial {
  /** Factor on the waits of the treatment arm. */
  readonly effect: number;
  readonly switchMs?: number;
  readonly arm?: (org: string, startMs: number, drawn: Arm) => Arm;
}

/** Waits of a tenant are correlated over hours, and tenants differ by an order of magnitude. */
function runTrial(seed: number, { effect, switchMs = 0, arm: armFor = (_, __, arm) => arm }: Trial) {
  const random = new SeededRandom(seed, "tenants");
  const normal = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  const judged = { ...rollout, salt: `${seed}`, shares: [SHARE], switchMs: switchMs || null };
  const tenants = Array.from({ length: TENANTS }, (_, at) => ({ org: `t${at}`, level: normal(), state: normal() }));
  let judgement: Judgement = newJudgement(judged);
  const units: MeasuredUnit[] = [];
  for (let fromMs = FIRST_MS; fromMs < FIRST_MS + (UNITS / TENANTS) * WINDOW_MS; fromMs += WINDOW_MS) {
    const runs: AdmittedRun[] = [];
    for (const tenant of tenants) {
      tenant.state = 0.97 * tenant.state + 0.24 * normal();
      for (let start = 0; start < STARTS; start++) {
        const askedMs = fromMs + ((start + random.next()) / STARTS) * WINDOW_MS;
        const drawn = tenantArm(judged, tenant.org, askedMs, MAX_WAIT_MS);
        const arm = armFor(tenant.org, fromMs, drawn.arm);
        const factor = arm === "treatment" ? effect : 1;
        const waitedMs = Math.min(MAX_WAIT_MS, 20 * factor * Math.exp(tenant.level + tenant.state + 0.5 * normal()));
        const measures = { R1: observe(NO_MEASURE, { kind: "admitted", waitedMs }) };
        runs.push({ org: tenant.org, createdMs: askedMs + waitedMs, arms: { R1: { ...drawn, arm } }, measures });
      }
    }
    units.push(...tenantUnits(judged, runs));
    if (units.length < BATCH) continue;
    judgement = judge(judged, judgement, units.splice(0), Number.MAX_SAFE_INTEGER).judgement;
    if (judgement.breach !== null) break;
  }
  return judgement;
}

function rolledBackPct(trial: Trial): number {
  const judgements = Array.from({ length: TRIALS }, (_, seed) => runTrial(seed, trial));
  return (100 * judgements.filter(({ breach }) => breach !== null).length) / TRIALS;
}

test("rolls back at most 1 % of rollouts with equal arms, however the waits of a tenant are correlated", () => {
  expect(rolledBackPct({ effect: 1 })).toBeLessThanOrEqual(1);
  expect(rolledBackPct({ effect: 1, switchMs: 3 * WINDOW_MS })).toBeLessThanOrEqual(1);
});

test("one arm per tenant for all its windows would roll back equal arms", () => {
  let trial = 0;
  const arm = (org: string, startMs: number): Arm => {
    if (startMs === FIRST_MS && org === "t0") trial += 1;
    return armOf({ salt: `${trial}`, share: SHARE, switchMs: null }, org, startMs);
  };
  expect(rolledBackPct({ effect: 1, arm })).toBeGreaterThan(5);
});

test("rolls back waits four times as long", () => {
  expect(rolledBackPct({ effect: 4 })).toBeGreaterThanOrEqual(90);
});
