import { configure } from "../../config/config.ts";
import type { Submission } from "../../core/jobs/submission.ts";
import type { PolicyDocument } from "../../core/policy/document.ts";
import type { OrgSettings, Settings } from "../../core/settings.ts";
import { drawFaults, type FaultProfile, type Faults } from "../faults.ts";
import type { SeededRandom } from "../random.ts";
import { drawKills, type KillPlan } from "./kill-operators.ts";
import { LIMIT_RULES, LIMITED_TOPICS } from "./limits.ts";
import { drawRollouts, type RolloutPlan } from "./rollout-operators.ts";
import { drawRuns, type RunPlan } from "./run-plan.ts";
import { drawSchedules, SCHEDULED_WORKFLOWS, type SchedulePlan } from "./schedule-plan.ts";
import { TALLY_TTL_MS } from "./tally.ts";
import { APPROVAL_TOPIC, DENIED_TOPIC, WORKER_ACTIONS, type WorkerAction } from "./workers.ts";

/** The system, workload and faults of one seed. Plain data that is drawn before the simulation starts. */
export interface Plan {
  readonly settings: Settings;
  readonly faults: Faults;
  /** The duration of the safety phase, in which faults are injected. */
  readonly safetyMs: number;
  /** Whether the simulation continues until all retention times have passed. */
  readonly checksRetention: boolean;
  readonly controls: readonly ControlPlan[];
  readonly workers: readonly WorkerPlan[];
  readonly orders: readonly Order[];
  readonly runs: RunPlan;
  readonly tallies: readonly TallyOrder[];
  readonly garbage: readonly Garbage[];
  readonly leases: readonly LeasePlan[];
  readonly rollouts: readonly RolloutPlan[];
  readonly kills: readonly KillPlan[];
  readonly schedules: readonly SchedulePlan[];
  /** The times at which the next policy is published. */
  readonly publishedMs: readonly number[];
}

/** A fail-open lease that an operator opens, and may close early. */
export interface LeasePlan {
  readonly atMs: number;
  readonly scope: string;
  readonly forMs: number;
  readonly closedAfterMs: number | null;
}

export interface ControlPlan {
  readonly name: string;
  readonly safety: "local" | "remote";
  readonly skewMs: number;
}

export interface WorkerPlan {
  readonly name: string;
  readonly topics: readonly string[];
  readonly concurrency: number;
  readonly skewMs: number;
  readonly startsMs: number;
}

/** A planned submission of a client. */
export interface Order {
  readonly number: number;
  readonly atMs: number;
  /** What makes retries idempotent; `none`: the client does not retry. `bus`: a CAP client publishes the job itself. */
  readonly by: "key" | "id" | "none" | "bus";
  readonly submission: Submission;
  /** What a worker does with each attempt; the last action repeats. */
  readonly actions: readonly WorkerAction[];
  /** When the client repeats the request after the reply; null for never. */
  readonly replayAfterMs: number | null;
  /** When the job is cancelled; null for never. */
  readonly cancelAfterMs: number | null;
  /** How operators decide on the approval; `both`: two operators at the same time. */
  readonly decision: "approve" | "reject" | "both" | "forget";
}

/** A planned increment of a tally. */
export interface TallyOrder {
  readonly id: string;
  readonly atMs: number;
  readonly record: string;
  /** The time between read and write. */
  readonly workMs: number;
  /** The first process that handles it pauses for this long between read and write; null for none. */
  readonly stallMs: number | null;
  /** `flaky` fails in about half of the attempts, `doomed` always, `refused` permanently. */
  readonly behavior: "fine" | "flaky" | "doomed" | "refused";
}

/** An invalid message. */
export interface Garbage {
  readonly id: string;
  readonly atMs: number;
  readonly kind: "bytes" | "wrong_kind" | "phantom" | "stray_result";
}

export const THROTTLE_RULE = {
  id: "slow",
  match: { topics: ["slow.>"] },
  decision: "throttle",
  reason: "not so fast",
} as const;

/** Would deny a topic that workers serve. */
const SHADOW_RULE = {
  id: "dry",
  match: { topics: ["work.beta"] },
  decision: "deny",
  reason: "not enforced",
  shadow: true,
} as const;

/** Permits in any case, with a decision that depends on the second of the evaluation. */
const TIMED_RULE = {
  id: "even",
  match: { topics: ["work.alpha"], when: "now.getSeconds() % 2 == 0" },
  decision: "allow_with_constraints",
  reason: "an even second",
  constraints: { redactionLevel: "standard" },
} as const;

const TOPICS = ["work.alpha", "work.beta", "work.beta", "lonely.gamma", APPROVAL_TOPIC, "slow.delta"] as const;
export const ORGS = ["default", "acme", "birch", "cedar"] as const;
const NOISY_ORG = "default";

/** Longer than the job deadline, and much shorter than a week, because idle processes cost events, too. */
const SHORT_RETENTION = { jobsMs: 30 * 3_600_000, runsMs: 20 * 3_600_000, idempotencyMs: 24 * 3_600_000 };
/** Longer than the clock steps add up to: a clock that steps past the retention time removes finished records at once. */
const LONG_RETENTION = { jobsMs: 1_500 * 3_600_000, runsMs: 1_000 * 3_600_000, idempotencyMs: 1_200 * 3_600_000 };

/** The policies in publication order; the last one has no throttle. */
export const POLICIES: readonly PolicyDocument[] = [1, 2, 3, 4].map((edition) => ({
  version: `simulated ${edition}`,
  defaultDecision: "allow",
  rules: [
    { id: "no-danger", match: { topics: ["danger.>"] }, decision: "deny", reason: `edition ${edition}` },
    { id: "ask", match: { topics: ["ask.>"] }, decision: "require_approval", reason: `edition ${edition}` },
    ...(edition === 4 ? [] : [THROTTLE_RULE]),
    ...LIMIT_RULES,
    SHADOW_RULE,
    TIMED_RULE,
  ],
}));

export function drawPlan(random: SeededRandom, jobs: number, profile: FaultProfile): Plan {
  const faults = drawFaults(profile, random.fork("faults"));
  const hasClockSteps = faults.process.clockStepEveryMs !== null;
  const plainMs = 40_000 + 200 * jobs;
  const rollouts = drawRollouts(random.fork("rollout plan"), plainMs);
  const kills = drawKills(random.fork("kill plan"), plainMs + 30_000, ORGS);
  // A rollback and a kill switch must have a minute to reach every process.
  const safetyMs = rollouts.length + kills.length === 0 ? plainMs : plainMs + 30_000;
  // A fifth of the orders are runs, each with several jobs.
  const runCount = Math.floor(jobs / 5);
  const runs = drawRuns(random.fork("runs"), runCount, safetyMs, ORGS);
  const schedules = drawSchedules(random.fork("scheduled workflows"), safetyMs, runs);
  const skew = (): number => Math.round(random.between(-0.5, 0.5) * faults.process.skewMsMax);
  // In half of the seeds some processes have a local kernel; otherwise all use the remote one.
  const localRate = random.chance(0.5) ? 0.5 : 0;
  const controls = Array.from({ length: random.pick([1, 2, 3, 3, 3, 4]) }, (_, index) => ({
    name: `control-${index + 1}`,
    safety: random.chance(localRate) ? ("local" as const) : ("remote" as const),
    skewMs: skew(),
  }));
  const workers = ["worker-1", "worker-2", "worker-3", "worker-4"].map((name, index) => ({
    name,
    // Some workers serve the denied topic, but must not receive jobs of it.
    topics:
      index === 3
        ? ["lonely.gamma", "work.beta"]
        : ["work.alpha", "work.beta", APPROVAL_TOPIC, "slow.delta", DENIED_TOPIC, ...LIMITED_TOPICS],
    concurrency: 1 + random.below(4),
    skewMs: skew(),
    startsMs: index === 3 ? random.between(0, safetyMs / 2) : 0,
  }));
  return {
    settings: withQuota(
      random.fork("quota"),
      withStoredPayloads(random.fork("payloads"), drawSettings(random.fork("settings"), profile, hasClockSteps)),
    ),
    faults,
    safetyMs,
    checksRetention: random.chance(0.2) && !hasClockSteps,
    controls,
    workers,
    orders: withLimited(
      random.fork("limited orders"),
      drawOrders(random.fork("orders"), jobs - runCount, safetyMs),
      safetyMs,
    ),
    runs: schedules.length === 0 ? runs : { ...runs, workflows: [...runs.workflows, ...SCHEDULED_WORKFLOWS] },
    tallies: drawTallies(random.fork("tallies"), Math.ceil(jobs / 3), safetyMs, profile !== "none"),
    garbage: drawGarbage(random.fork("garbage"), Math.ceil(jobs / 25), safetyMs),
    leases: drawLeases(random.fork("leases"), safetyMs),
    rollouts,
    kills,
    schedules,
    publishedMs: POLICIES.slice(2).map(() => random.between(0, safetyMs)),
  };
}

/** In half of the seeds nearly every payload is in the blob store. */
function withStoredPayloads(random: SeededRandom, settings: Settings): Settings {
  if (random.chance(0.5)) return settings;
  return { ...settings, limits: { ...settings.limits, inlineBytesMax: 8 } };
}

/** In a quarter of the seeds the open jobs of a tenant reach their quota, and clients have to wait. */
function withQuota(random: SeededRandom, settings: Settings): Settings {
  // Without parking, a message of the bus that waits for room reaches the delivery limit of the broker.
  if (random.chance(0.75) || settings.bus.parkAfterMs === null) return settings;
  return { ...settings, limits: { ...settings.limits, backlogMax: 2 + random.below(6) } };
}

function drawLeases(random: SeededRandom, safetyMs: number): LeasePlan[] {
  if (random.chance(0.3)) return [];
  return Array.from({ length: Math.ceil(safetyMs / 30_000) }, () => drawLease(random, safetyMs));
}

export function drawLease(random: SeededRandom, withinMs: number): LeasePlan {
  return {
    atMs: random.between(0, withinMs),
    scope: random.pick([...ORGS, "*", "*", "*", "*", "*", "*"]),
    forMs: Math.round(random.logarithmic(1_000, 20_000)),
    closedAfterMs: random.chance(0.5) ? random.logarithmic(300, 8_000) : null,
  };
}

/** The shipped defaults with limits and timeouts small enough to be reached. */
function drawSettings(random: SeededRandom, profile: FaultProfile, hasClockSteps: boolean): Settings {
  const configured = configure({ env: { CORDUM_LIMITS_SCHEDULE_INTERVAL_MIN_MS: "1000" } });
  if (configured.kind === "bad") throw new Error(`the default settings are invalid: ${configured.problems.join("; ")}`);
  const { settings } = configured.config;
  const isPlain = profile === "none";
  return {
    ...settings,
    unsignedTenants: ORGS,
    bus: {
      ...settings.bus,
      ackWaitMs: isPlain ? settings.bus.ackWaitMs : Math.round(random.logarithmic(2_000, 30_000)),
      ackPendingMax: isPlain ? settings.bus.ackPendingMax : Math.round(random.logarithmic(2, 256)),
      ...drawParking(random, settings),
    },
    orgs: drawOrgs(random),
    admission: { ...settings.admission, strategy: random.chance(0.3) ? "polled" : "atomic" },
    runLock: {
      ...settings.runLock,
      engineWaitMs: random.pick([0, settings.runLock.engineWaitMs]),
      ttlMs: Math.round(random.logarithmic(1_500, 20_000)),
      coalesce: random.chance(0.75),
    },
    run: { deadlineMs: Math.round(random.logarithmic(60_000, 240_000)) },
    retention: hasClockSteps ? LONG_RETENTION : SHORT_RETENTION,
    approval: { expiresMs: Math.round(random.logarithmic(5_000, 40_000)) },
    safety: {
      ...settings.safety,
      breaker: {
        failures: 1 + random.below(5),
        openMs: Math.round(random.logarithmic(500, 5_000)),
        probes: 1 + random.below(2),
      },
    },
    dispatch: { windowMax: 2 + random.below(8), deadlineMs: Math.round(random.logarithmic(4_000, 15_000)) },
    limits: { ...settings.limits, inlineBytesMax: random.chance(0.25) ? 256 : settings.limits.inlineBytesMax },
    job: {
      // Rarely short: a timeout hides that a job was stuck.
      deadlineMs: random.chance(0.1) ? 40_000 : settings.job.deadlineMs,
      lockTtlMs: Math.round(random.logarithmic(1_500, 20_000)),
    },
  };
}

/** Small job or run limits for some orgs. */
function drawOrgs(random: SeededRandom): Settings["orgs"] {
  const orgs: Record<string, OrgSettings> = {};
  if (random.chance(0.5)) orgs.acme = { limits: { concurrentJobsMax: 1 + random.below(3) } };
  if (random.chance(0.5)) orgs.birch = { limits: { concurrentRunsMax: 1 + random.below(4) } };
  if (random.chance(0.5)) orgs[NOISY_ORG] = { limits: { concurrentRunsMax: 1 + random.below(4) } };
  return orgs;
}

/**
 * One in eight seeds keeps all delays in the broker, as the baseline profile does. A third of the others have a small
 * delivery limit, which long delays must not reach.
 */
function drawParking(random: SeededRandom, { bus }: Settings): Pick<Settings["bus"], "parkAfterMs" | "deliverMax"> {
  if (random.chance(0.125)) return { parkAfterMs: null, deliverMax: bus.deliverMax };
  return { parkAfterMs: bus.parkAfterMs, deliverMax: random.chance(0.33) ? 20 : bus.deliverMax };
}

function drawOrders(random: SeededRandom, count: number, safetyMs: number): Order[] {
  const burstMs = random.between(0, safetyMs / 2);
  return Array.from({ length: count }, (_, number) => {
    // Two fifths of the jobs are one org's burst on one topic; others arrive right after it and must get their fair share.
    const isBurst = random.chance(0.4);
    const isLate = !isBurst && random.chance(0.15);
    const by = random.pick(["key", "key", "key", "key", "id", "id", "none", "bus"] as const);
    const topic = random.chance(0.2) ? DENIED_TOPIC : random.pick(TOPICS);
    const atMs = random.between(0, safetyMs * 0.9);
    return {
      number,
      atMs: isBurst ? burstMs + random.between(0, 500) : isLate ? burstMs + random.between(200, 1_500) : atMs,
      by,
      submission: {
        org: isBurst ? NOISY_ORG : random.pick(ORGS),
        topic: isBurst || isLate ? "work.alpha" : topic,
        inputPtr: null,
        isStamped: false,
        // Some inputs exceed a small inline limit.
        input: { number, text: "x".repeat(random.chance(0.3) ? 300 : 3) },
        jobId: by === "id" || by === "bus" ? `job-${number}` : null,
        priority: random.pick(["batch", "batch", "interactive", "critical"] as const),
        labels: { order: String(number) },
        riskTags: [],
        requires: [],
        capability: null,
        actorId: null,
        idempotencyKey: by === "key" ? `key-${number}` : null,
        traceId: null,
        actorType: null,
        packId: null,
        submittedBy: null,
        traceparent: null,
      },
      actions: drawActions(random),
      replayAfterMs: by === "key" && random.chance(0.2) ? random.between(10, 20_000) : null,
      cancelAfterMs: random.chance(0.05) ? random.logarithmic(50, 20_000) : null,
      decision: random.pick(["approve", "approve", "approve", "reject", "both", "forget"] as const),
    };
  });
}

/** Adds bursts of jobs of two tenants on the topics with limits and budgets, at most a fifth of the orders. */
function withLimited(random: SeededRandom, orders: readonly Order[], safetyMs: number): readonly Order[] {
  const bursts = [1, 2, 3].map(() => random.between(0, safetyMs * 0.8));
  const count = Math.ceil(orders.length / 5);
  const added = drawOrders(random, count, safetyMs).map((order, at): Order => {
    const number = orders.length + at;
    // A client of the bus learns of an exhausted budget from a dead letter; the others get an answer.
    const by = order.by === "bus" ? "key" : order.by;
    return {
      ...order,
      number,
      by,
      atMs: random.pick(bursts) + random.between(0, 400),
      submission: {
        ...order.submission,
        org: random.pick(["acme", "birch"]),
        topic: random.pick(LIMITED_TOPICS),
        input: { number, text: "limited" },
        jobId: by === "id" ? `job-${number}` : null,
        labels: { order: String(number) },
        idempotencyKey: by === "key" ? `key-${number}` : null,
      },
    };
  });
  return [...orders, ...added];
}

function drawActions(random: SeededRandom): readonly WorkerAction[] {
  if (random.chance(0.6)) return ["ok"];
  // Some jobs never succeed and use up their budget.
  if (random.chance(0.08)) return ["throw"];
  const length = 1 + random.below(3);
  return [...Array.from({ length }, () => random.pick(WORKER_ACTIONS)), "ok"];
}

/** Arrivals come in a few bursts, so that the locks are contended. */
function drawTallies(random: SeededRandom, count: number, safetyMs: number, isStalling: boolean): TallyOrder[] {
  const bursts = Array.from({ length: 3 }, () => random.between(0, safetyMs * 0.8));
  return Array.from({ length: count }, (_, index) => ({
    id: `tally-${index}`,
    atMs: random.pick(bursts) + random.between(0, 1_500),
    record: random.pick(["a", "b"]),
    workMs: random.logarithmic(2, 800),
    stallMs: isStalling && random.chance(0.15) ? TALLY_TTL_MS * random.between(0.5, 3) : null,
    behavior: random.pick([
      "fine",
      "fine",
      "fine",
      "fine",
      "fine",
      "fine",
      "flaky",
      "flaky",
      "doomed",
      "refused",
    ] as const),
  }));
}

function drawGarbage(random: SeededRandom, count: number, safetyMs: number): Garbage[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `garbage-${index}`,
    atMs: random.between(0, safetyMs * 0.8),
    kind: random.pick(["bytes", "bytes", "wrong_kind", "phantom", "stray_result"] as const),
  }));
}
