/**
 * What the first page of a dashboard shows, in one request.
 *
 * 1. Only counters and the ends of indexes are read, in a bounded number; nothing is scanned.
 * 2. A key of one tenant sees its own numbers; what is not kept per tenant is null.
 * 3. `attention` has the findings of `cordum doctor` that a gateway can compute, and those of the queues.
 */
import { Type } from "typebox";
import { EVERY_ORG } from "../../../core/model/api-key.ts";
import { DEAD_LETTERS, deadLettersOf } from "../../../core/model/dead-letter.ts";
import { BACKLOG_GROUP, backlogGroupOf, JOBS, unreviewedOf, waitingOn } from "../../../core/model/job.ts";
import { jobsOf } from "../../../core/model/lists/job-lists.ts";
import { formatBudget } from "../../../core/retry/budget.ts";
import { formatPolicy } from "../../../core/retry/policies.ts";
import { RETRY_CLASSES } from "../../../core/retry/retry-classes.ts";
import type { Engine } from "../../../engine/engine.ts";
import { visibleTenant } from "../../auth/access.ts";
import { ATTENTION, attentionOf } from "../../findings/attention.ts";
import { caution, danger, type Finding } from "../../findings/finding.ts";
import { diagnose, type StatusFacts } from "../../findings/findings.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../../route.ts";
import { BUDGET_USE } from "../../views/budget-views.ts";
import { instant, orNull } from "../../views/schemas.ts";
import { KILL } from "../kill-switch.ts";
import { locksByContention } from "../locks.ts";
import { statusOf } from "../status.ts";

const count = Type.Integer();
const ms = (description: string) => orNull(Type.Integer({ description }));

const OVERVIEW = Type.Object(
  {
    at: instant("Time of the figures."),
    tenant: Type.String({ description: "`*` for all tenants." }),
    process: Type.String({ description: "The process that answered." }),
    demo: Type.Boolean({ description: "The control plane runs with `--demo`." }),
    ready: Type.Boolean(),
    not_ready_because: orNull(Type.String()),
    attention: Type.Array(ATTENTION, { description: "The most urgent first, at most 50." }),
    backlog_total: count,
    in_flight_total: count,
    topics: Type.Array(
      Type.Object({
        topic: Type.String(),
        backlog: count,
        oldest_ms: ms("Age of the oldest queued job; null for a key of one tenant."),
      }),
      { description: "The 50 topics with the longest backlogs." },
    ),
    tenants: Type.Array(
      Type.Object({ tenant: Type.String(), backlog: count, oldest_ms: ms("Age of the oldest queued job.") }),
      { description: "The 50 tenants with the longest backlogs." },
    ),
    throughput: Type.Object({
      measured_ms: Type.Integer({
        description: "The time of the figures, at most a minute; it begins with the first request.",
      }),
      jobs_per_s: Type.Number(),
      failed_per_s: Type.Number({ description: "Of these: ended without success." }),
      runs_per_s: Type.Number(),
      retries_per_s: Type.Number(),
    }),
    retries: Type.Array(
      Type.Object({
        class: Type.String(),
        waiting: orNull(Type.Integer({ description: "Jobs." })),
        parked: orNull(Type.Integer({ description: "Messages." })),
        per_s: orNull(Type.Number({ description: "Arrivals at this process over the last ten seconds." })),
        policy: Type.String(),
        budget: Type.String({ description: "`8`: failed tries. `10m`: time. `deadline`: until that of the job." }),
      }),
      { description: "By retry class; null for a key of one tenant." },
    ),
    budgets: Type.Array(BUDGET_USE, {
      description: "Use of the policy's budgets by tenant, day and label, the most used first, at most 100.",
    }),
    budgets_exhausted: Type.Object(
      { last_hour: count, last_day: count },
      { description: "Dead letters of retry budgets." },
    ),
    dead_letters: count,
    approvals: Type.Object({ count, oldest_ms: ms("Age of the oldest; of one tenant.") }),
    runs: Type.Object({ open: count, limit: orNull(count) }),
    workers: Type.Object({ total: count, leaving: count }),
    duties: Type.Record(Type.String(), Type.Integer(), {
      description: "By how many milliseconds each background loop of this process is behind.",
    }),
    fail_open: Type.Array(
      Type.Object({ id: Type.String(), scope: Type.String(), reason: Type.String(), ends_at: instant("End.") }),
    ),
    kill: Type.Array(KILL),
    disk: orNull(Type.Object({ path: Type.String(), free_bytes: count, size_bytes: count, low: Type.Boolean() })),
  },
  { title: "Overview" },
);

export const OVERVIEW_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/overview",
    summary:
      "Get what needs attention, with the request that resolves it, and the figures of queues, retries and safety",
    access: "read",
    response: OVERVIEW,
    handle: getOverview,
  },
];

/** The used fields of the status. */
interface Status extends StatusFacts {
  readonly backlog: Readonly<Record<string, number>>;
  readonly waiting: Readonly<Record<string, number>> | null;
  readonly parked_retries: Readonly<Record<string, number>> | null;
  readonly in_flight_total: number;
  readonly approvals: number;
  readonly runs: { readonly open: number; readonly limit?: number };
  readonly duties: Readonly<Record<string, number>>;
  readonly budgets: readonly object[];
}

async function getOverview(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine, info, throughput } = gateway;
  const { world } = engine;
  const tenant = visibleTenant(request);
  const status = (await statusOf(gateway, request)) as Status;
  const nowMs = world.clock.now();
  const [topics, tenants, deaths, approvalMs, unreviewed, [lock = null]] = await Promise.all([
    topicsOf(engine, tenant, status.backlog, nowMs),
    tenantsOf(engine, tenant, status, nowMs),
    deathsOf(engine, tenant, nowMs),
    tenant === EVERY_ORG ? null : oldestOf(engine, jobsOf(tenant, "APPROVAL_REQUIRED"), nowMs),
    world.store.count(JOBS, { index: unreviewedOf(request.org) }),
    tenant === EVERY_ORG ? locksByContention(engine, 1) : [],
  ]);
  const rates = throughput.read(tenant === EVERY_ORG ? null : tenant);
  const perS = (total: number) => (rates.measuredMs === 0 ? 0 : total / (rates.measuredMs / 1_000));
  const findings = [
    ...diagnose({
      status: { ...status, tenant },
      lock,
      unreviewed: { count: unreviewed, isMore: false },
      url: "http://127.0.0.1",
      clientVersion: info.version,
    }),
    ...queueFindings(engine, topics),
    ...approvalFindings(status, approvalMs),
    ...(tenant === EVERY_ORG ? rolloutFindings(engine) : []),
  ];
  return ok({
    at: new Date(nowMs).toISOString(),
    tenant,
    process: world.name,
    demo: gateway.demo !== null,
    ready: status.ready,
    not_ready_because: status.not_ready_because ?? null,
    attention: byUrgency(findings).slice(0, ATTENTION_MAX).map(attentionOf),
    backlog_total: status.backlog_total,
    in_flight_total: status.in_flight_total,
    topics,
    tenants,
    throughput: {
      measured_ms: Math.round(rates.measuredMs),
      jobs_per_s: perS(rates.jobs),
      failed_per_s: perS(rates.failed),
      runs_per_s: perS(rates.runs),
      retries_per_s: perS(rates.retrying),
    },
    retries: retriesOf(engine, status, nowMs),
    budgets: status.budgets,
    budgets_exhausted: deaths,
    dead_letters: status.dead_letters,
    approvals: { count: status.approvals, oldest_ms: approvalMs },
    runs: { open: status.runs.open, limit: status.runs.limit ?? null },
    workers: { total: status.workers?.total ?? 0, leaving: status.workers?.leaving ?? 0 },
    duties: status.duties,
    fail_open: status.safety?.fail_open ?? [],
    kill: status.kill ?? [],
    disk: status.disk ?? null,
  });
}

interface TopicLoad {
  readonly topic: string;
  readonly backlog: number;
  readonly oldest_ms: number | null;
}

async function topicsOf(
  engine: Engine,
  tenant: string,
  backlog: Status["backlog"],
  nowMs: number,
): Promise<readonly TopicLoad[]> {
  const longest = Object.entries(backlog)
    .sort(([, a], [, b]) => b - a)
    .slice(0, ROWS_MAX);
  // The index by age has the jobs of all tenants.
  const isForAll = tenant === EVERY_ORG;
  return Promise.all(
    longest.map(async ([topic, length]) => ({
      topic,
      backlog: length,
      oldest_ms: isForAll ? await oldestOf(engine, waitingOn(topic), nowMs) : null,
    })),
  );
}

async function tenantsOf(engine: Engine, tenant: string, status: Status, nowMs: number): Promise<readonly object[]> {
  const counts = new Map<string, number>();
  if (tenant !== EVERY_ORG) counts.set(tenant, status.backlog_total ?? 0);
  else {
    const topics = [...(await engine.world.store.counts(BACKLOG_GROUP, ROWS_MAX)).keys()];
    const groups = await Promise.all(topics.map((topic) => engine.world.store.counts(backlogGroupOf(topic), ROWS_MAX)));
    for (const group of groups) {
      for (const [org, length] of group) counts.set(org, (counts.get(org) ?? 0) + length);
    }
  }
  const longest = [...counts]
    .filter(([, length]) => length > 0)
    .sort(([, a], [, b]) => b - a)
    .slice(0, ROWS_MAX);
  return Promise.all(
    longest.map(async ([org, length]) => ({
      tenant: org,
      backlog: length,
      oldest_ms: await oldestOf(engine, jobsOf(org, "SCHEDULED"), nowMs),
    })),
  );
}

async function oldestOf({ world: { store } }: Engine, index: string, nowMs: number): Promise<number | null> {
  const { items } = await store.list(JOBS, { index, limit: 1, order: "oldest" });
  const [oldest] = items;
  return oldest === undefined ? null : Math.max(0, Math.round(nowMs - oldest.value.createdMs));
}

async function deathsOf({ world: { store } }: Engine, tenant: string, nowMs: number): Promise<object> {
  const index = deadLettersOf(tenant, { reason: "budget" });
  const [last_hour, last_day] = await Promise.all(
    [HOUR_MS, 24 * HOUR_MS].map((age) => store.count(DEAD_LETTERS, { index, scoreMin: Math.floor(nowMs - age) })),
  );
  return { last_hour, last_day };
}

function retriesOf({ settings, arrivals }: Engine, status: Status, nowMs: number): readonly object[] {
  const rates = arrivals.rates(nowMs);
  const isForAll = status.waiting !== null;
  return RETRY_CLASSES.map((name) => {
    const { policy, budget } = settings.current.retry[name];
    return {
      class: name,
      waiting: isForAll ? (status.waiting?.[name] ?? 0) : null,
      parked: isForAll ? (status.parked_retries?.[name] ?? 0) : null,
      per_s: isForAll ? (rates.get(name) ?? 0) : null,
      policy: formatPolicy(policy),
      budget: formatBudget(budget),
    };
  });
}

function queueFindings(engine: Engine, topics: readonly TopicLoad[]): readonly Finding[] {
  const workers = engine.registry.list(engine.world.clock.now());
  // Without any worker the finding `no_workers` says so.
  if (workers.length === 0) return [];
  return topics.flatMap(({ topic, backlog, oldest_ms }) => {
    const about = sinceOf(engine, oldest_ms, backlog);
    if (oldest_ms !== null && !workers.some(({ topics: served }) => served.includes(topic))) {
      const what = `${backlog} jobs of topic ${topic} are queued, and no worker serves it`;
      return [danger("no_worker_for_topic", what, "start a worker of this topic", "cordum worker list", about)];
    }
    if (oldest_ms === null || oldest_ms < OLD_MS) return [];
    const what = `the oldest queued job of topic ${topic} has waited for ${Math.floor(oldest_ms / 60_000)} minutes`;
    return [caution("queue_old", what, "add workers, or find out what holds them up", "cordum worker list", about)];
  });
}

function approvalFindings({ approvals }: Status, oldestMs: number | null): readonly Finding[] {
  if (approvals === 0) return [];
  const jobs = approvals === 1 ? "1 job waits" : `${approvals} jobs wait`;
  const age = oldestMs === null ? "" : `, the oldest for ${Math.max(1, Math.floor(oldestMs / 60_000))} min`;
  const what = `${jobs} for approval${age}`;
  return [
    caution("approvals", what, "approve or reject before the request expires", "cordum approval list", {
      count: approvals,
    }),
  ];
}

function rolloutFindings({ rollouts }: Engine): readonly Finding[] {
  return rollouts.active
    .filter(({ state }) => state === "proved")
    .map(({ id, subject }) => {
      const what = `the rollout of ${subject} is proved and can be promoted`;
      return caution("rollout_proved", what, "promote it, or end it", `cordum rollout promote ${id}`, { id });
    });
}

function sinceOf({ world }: Engine, ageMs: number | null, count: number) {
  return ageMs === null ? { count } : { count, since: new Date(world.clock.now() - ageMs).toISOString() };
}

/** Within a level in the order of the findings, except that stopped work precedes configuration. */
function byUrgency(findings: readonly Finding[]): readonly Finding[] {
  const rank = ({ level, code }: Finding) => (level === "danger" ? 0 : 10_000) + (RANKS.get(code) ?? 1_000);
  return findings.toSorted((a, b) => rank(a) - rank(b));
}

const RANKS: ReadonlyMap<string, number> = new Map(
  [
    ...["not_ready", "disk_low", "redis_went_back", "killed", "safety_unavailable", "fail_open", "no_workers"],
    ...[
      "no_worker_for_topic",
      "unreviewed_bypasses",
      "dead_letters",
      "lock_hot",
      "approvals",
      "rollout_proved",
      "queue_old",
    ],
  ].map((code, at) => [code, at]),
);

const ROWS_MAX = 50;
const ATTENTION_MAX = 50;
const HOUR_MS = 3_600_000;
const OLD_MS = 5 * 60_000;
