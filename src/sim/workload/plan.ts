import { configure } from "../../config/config.ts";
import type { Submission } from "../../core/jobs/submission.ts";
import type { PolicyDocument } from "../../core/policy/document.ts";
import type { OrgSettings, Settings } from "../../core/settings.ts";
import { drawFaults, type FaultProfile, type Faults } from "../faults.ts";
import type { SeededRandom } from "../random.ts";
import { ACTS, type Act, ASKED_TOPIC, DENIED_TOPIC } from "./acts.ts";
import { drawRuns, type RunPlan } from "./run-plan.ts";
import { TALLY_TTL_MS } from "./tally.ts";

/**
 * What one seed makes: the system, what is asked of it, and what goes wrong. Plain data, drawn before anything runs, so
 * that a history can be read from its beginning.
 */
export interface Plan {
  readonly settings: Settings;
  readonly faults: Faults;
  /** Faults end after this; then everything must end. */
  readonly safetyMs: number;
  /** Whether time goes on at the end until everything has been removed. */
  readonly seesRetention: boolean;
  readonly controls: readonly ControlPlan[];
  readonly workers: readonly WorkerPlan[];
  readonly orders: readonly Order[];
  readonly runs: RunPlan;
  readonly tallies: readonly TallyOrder[];
  readonly garbage: readonly Garbage[];
  readonly leases: readonly LeasePlan[];
  /** When the next policy is published. */
  readonly publishedMs: readonly number[];
}

/** A fail-open lease that somebody opens, and may close before its end. */
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
  /** Before this nobody is there. */
  readonly startsMs: number;
}

/** One wish of a client. */
export interface Order {
  readonly number: number;
  readonly atMs: number;
  /** How the client makes trying again harmless; `none` tries once. `bus`: a CAP client publishes the job itself. */
  readonly by: "key" | "id" | "none" | "bus";
  readonly submission: Submission;
  /** What a worker does with each attempt; the last one goes for all that follow. */
  readonly acts: readonly Act[];
  /** When the client asks once more, after it was told; null for never. */
  readonly replayAfterMs: number | null;
  /** When somebody does not want it any more; null for never. */
  readonly cancelAfterMs: number | null;
  /** What people say when they are asked about it; `both` at the same time. */
  readonly answer: "approve" | "reject" | "both" | "forget";
}

/** A request to count something under a lock. */
export interface TallyOrder {
  readonly id: string;
  readonly atMs: number;
  readonly record: string;
  readonly thinkMs: number;
  /** The process that is first to think about it stalls for so long; null for none. */
  readonly stallMs: number | null;
  /** `flaky` fails in about half of its tries, `doomed` always, `refused` says never again. */
  readonly mood: "fine" | "flaky" | "doomed" | "refused";
}

/** What nobody should have sent. */
export interface Garbage {
  readonly id: string;
  readonly atMs: number;
  readonly kind: "bytes" | "wrong_kind" | "phantom" | "stray_result";
}

const SLOWLY = { id: "slow", match: { topics: ["slow.>"] }, decision: "throttle", reason: "not so fast" } as const;

const TOPICS = ["work.alpha", "work.beta", "work.beta", "lonely.gamma", ASKED_TOPIC, "slow.delta"] as const;
const ORGS = ["default", "acme", "birch", "cedar"] as const;
const NOISY_ORG = "default";

/** One after the other is published; the last one throttles nobody. */
export const POLICIES: readonly PolicyDocument[] = [1, 2, 3, 4].map((edition) => ({
  version: `simulated ${edition}`,
  defaultDecision: "allow",
  rules: [
    { id: "no-danger", match: { topics: ["danger.>"] }, decision: "deny", reason: `edition ${edition}` },
    { id: "ask", match: { topics: ["ask.>"] }, decision: "require_approval", reason: `edition ${edition}` },
    ...(edition === 4 ? [] : [SLOWLY]),
  ],
}));

export function drawPlan(random: SeededRandom, jobs: number, profile: FaultProfile): Plan {
  const faults = drawFaults(profile, random.fork("faults"));
  const safetyMs = 40_000 + 200 * jobs;
  // A fifth of all wishes is for a run, which is several jobs.
  const runs = Math.floor(jobs / 5);
  const skew = (): number => Math.round(random.between(-0.5, 0.5) * faults.process.skewMsMax);
  // In half of the histories some ask a kernel of their own and some the remote one; in the others all the remote one.
  const localRate = random.chance(0.5) ? 0.5 : 0;
  const controls = Array.from({ length: random.pick([1, 2, 3, 3, 3, 4]) }, (_, index) => ({
    name: `control-${index + 1}`,
    safety: random.chance(localRate) ? ("local" as const) : ("remote" as const),
    skewMs: skew(),
  }));
  const workers = ["worker-1", "worker-2", "worker-3", "worker-4"].map((name, index) => ({
    name,
    // Somebody may serve what is forbidden: it must not get any all the same.
    topics:
      index === 3
        ? ["lonely.gamma", "work.beta"]
        : ["work.alpha", "work.beta", ASKED_TOPIC, "slow.delta", DENIED_TOPIC],
    concurrency: 1 + random.below(4),
    skewMs: skew(),
    startsMs: index === 3 ? random.between(0, safetyMs / 2) : 0,
  }));
  return {
    settings: drawSettings(random.fork("settings"), profile),
    faults,
    safetyMs,
    seesRetention: random.chance(0.2),
    controls,
    workers,
    orders: drawOrders(random.fork("orders"), jobs - runs, safetyMs),
    runs: drawRuns(random.fork("runs"), runs, safetyMs, ORGS),
    tallies: drawTallies(random.fork("tallies"), Math.ceil(jobs / 3), safetyMs, profile !== "none"),
    garbage: drawGarbage(random.fork("garbage"), Math.ceil(jobs / 25), safetyMs),
    leases: drawLeases(random.fork("leases"), safetyMs),
    publishedMs: POLICIES.slice(2).map(() => random.between(0, safetyMs)),
  };
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

/** The shipped defaults, with windows and waits small enough that every limit is reached. */
function drawSettings(random: SeededRandom, profile: FaultProfile): Settings {
  const configured = configure({});
  if (configured.kind === "bad") throw new Error(`the defaults are refused: ${configured.problems.join("; ")}`);
  const { settings } = configured.config;
  const isPlain = profile === "none";
  return {
    ...settings,
    unsignedTenants: ORGS,
    bus: {
      ...settings.bus,
      ackWaitMs: isPlain ? settings.bus.ackWaitMs : Math.round(random.logarithmic(2_000, 30_000)),
      ackPendingMax: isPlain ? settings.bus.ackPendingMax : Math.round(random.logarithmic(2, 256)),
      ...drawWaiting(random, settings),
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
    // Longer than a job's own patience; not a week, through which idle processes would have to be followed.
    retention: { jobsMs: 30 * 3_600_000, runsMs: 20 * 3_600_000, idempotencyMs: 24 * 3_600_000 },
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
      // Seldom short: a job that merely times out hides that nobody came for it.
      deadlineMs: random.chance(0.1) ? 40_000 : settings.job.deadlineMs,
      lockTtlMs: Math.round(random.logarithmic(1_500, 20_000)),
    },
  };
}

/** Some have few places for jobs, some for runs. */
function drawOrgs(random: SeededRandom): Settings["orgs"] {
  const orgs: Record<string, OrgSettings> = {};
  if (random.chance(0.5)) orgs.acme = { limits: { concurrentJobsMax: 1 + random.below(3) } };
  if (random.chance(0.5)) orgs.birch = { limits: { concurrentRunsMax: 1 + random.below(4) } };
  if (random.chance(0.5)) orgs[NOISY_ORG] = { limits: { concurrentRunsMax: 1 + random.below(4) } };
  return orgs;
}

/**
 * One in eight keeps every wait in the broker, as the founding profile does. Of the others one in three has a broker that
 * soon gives up: long waits must have left it before that.
 */
function drawWaiting(random: SeededRandom, { bus }: Settings): Pick<Settings["bus"], "parkAfterMs" | "deliverMax"> {
  if (random.chance(0.125)) return { parkAfterMs: null, deliverMax: bus.deliverMax };
  return { parkAfterMs: bus.parkAfterMs, deliverMax: random.chance(0.33) ? 20 : bus.deliverMax };
}

function drawOrders(random: SeededRandom, count: number, safetyMs: number): Order[] {
  const burstMs = random.between(0, safetyMs / 2);
  return Array.from({ length: count }, (_, number) => {
    // Two fifths of all jobs are one org's burst on one topic; a few others come right after it, and must get their turn.
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
        // Some are too large for a record, where records are small.
        inputPtr: null,
        isStamped: false,
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
      acts: drawActs(random),
      replayAfterMs: by === "key" && random.chance(0.2) ? random.between(10, 20_000) : null,
      cancelAfterMs: random.chance(0.05) ? random.logarithmic(50, 20_000) : null,
      answer: random.pick(["approve", "approve", "approve", "reject", "both", "forget"] as const),
    };
  });
}

function drawActs(random: SeededRandom): readonly Act[] {
  if (random.chance(0.6)) return ["ok"];
  // Some never succeed: their budget must end.
  if (random.chance(0.08)) return ["throw"];
  const length = 1 + random.below(3);
  return [...Array.from({ length }, () => random.pick(ACTS)), "ok"];
}

/** They come in a few bursts, so that their locks are contended. */
function drawTallies(random: SeededRandom, count: number, safetyMs: number, isStalling: boolean): TallyOrder[] {
  const bursts = Array.from({ length: 3 }, () => random.between(0, safetyMs * 0.8));
  return Array.from({ length: count }, (_, index) => ({
    id: `tally-${index}`,
    atMs: random.pick(bursts) + random.between(0, 1_500),
    record: random.pick(["a", "b"]),
    thinkMs: random.logarithmic(2, 800),
    stallMs: isStalling && random.chance(0.15) ? TALLY_TTL_MS * random.between(0.5, 3) : null,
    mood: random.pick(["fine", "fine", "fine", "fine", "fine", "fine", "flaky", "flaky", "doomed", "refused"] as const),
  }));
}

function drawGarbage(random: SeededRandom, count: number, safetyMs: number): Garbage[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `garbage-${index}`,
    atMs: random.between(0, safetyMs * 0.8),
    kind: random.pick(["bytes", "bytes", "wrong_kind", "phantom", "stray_result"] as const),
  }));
}
