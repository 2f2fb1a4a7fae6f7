/**
 * How it is: what runs here, under which policy and promise of durability, what waits and for what, and the founding
 * figures.
 *
 * 1. A key of one tenant sees its own numbers and nobody's names. What is not kept tenant by tenant is `null` for it, and of what
 *    stands behind this process (servers, their addresses, what they say) it sees nothing.
 * 2. A key of tenant `*` that names no tenant sees all of them.
 */
import { Type } from "typebox";
import { servesTenant } from "../../core/jobs/select-target.ts";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { covers, FAIL_OPEN_MAX, FAIL_OPENS, isInForce, OPEN_GRANTS_LIST } from "../../core/model/fail-open.ts";
import {
  APPROVALS_GROUP,
  BACKLOG_GROUP,
  backlogGroupOf,
  IN_FLIGHT_GROUP,
  runningOf,
  WAITING_GROUP,
} from "../../core/model/job.ts";
import { EVERY_SCOPE } from "../../core/model/kill-switch.ts";
import { PARKED_GROUP } from "../../core/model/parked-message.ts";
import { RUNS_GROUP, runsOpenOf } from "../../core/model/run.ts";
import type { Engine } from "../../engine/engine.ts";
import { runLimitOf } from "../../engine/runs/index.ts";
import { FAIL_OPEN_TOTAL } from "../../engine/safety/index.ts";
import { shownTo } from "../auth/access.ts";
import { type About, type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { inForceView } from "../views/policy-views.ts";
import { readinessOf } from "./health.ts";
import { killView } from "./kill-switch.ts";

const counts = Type.Record(Type.String(), Type.Integer());
const orNull = (type: ReturnType<typeof Type.Record>) => Type.Union([type, Type.Null()]);

export const STATUS_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/status",
    summary: "How it is: what runs here, what waits and for what, and the founding figures",
    access: "read",
    answer: Type.Object({
      tenant: Type.String({ description: "Whose numbers these are; `*` for all tenants." }),
      ready: Type.Boolean(),
      backlog: Type.Record(Type.String(), Type.Integer(), { description: "Jobs that wait to be sent, by topic." }),
      backlog_total: Type.Integer(),
      in_flight: orNull(counts),
      in_flight_total: Type.Integer({ description: "Jobs that are with workers." }),
      waiting: orNull(counts),
      parked_retries: orNull(counts),
      approvals: Type.Integer({ description: "Jobs that wait for a human." }),
      dead_letters: Type.Integer(),
      runs: Type.Object(
        {
          open: Type.Integer({ description: "Runs of workflows that have not ended." }),
          limit: Type.Optional(Type.Integer({ description: "`limits.max_concurrent_runs` of the tenant." })),
          by_tenant: Type.Optional(counts),
        },
        { description: "`limit` where one tenant is shown, `by_tenant` where all are." },
      ),
      workers: Type.Object(
        { total: Type.Integer(), leaving: Type.Integer() },
        { additionalProperties: true, description: "Those that work for the tenant." },
      ),
      kill: Type.Array(Type.Object({}, { additionalProperties: true }), {
        description: "Kill switches that are engaged: nothing of their scope goes out.",
      }),
      safety: Type.Object({}, { additionalProperties: true }),
      input_fail_open_total: Type.Union([Type.Integer(), Type.Null()], {
        description:
          "Jobs that ever went out without a verdict, of all tenants; like the figures, only for keys of `*`.",
      }),
    }),
    handle: getStatus,
  },
];

async function getStatus(gateway: Gateway, request: GatewayRequest): Promise<Answer> {
  const { engine, about, metrics, startedMs } = gateway;
  const { clock, name } = engine.world;
  const tenant = shownTo(request);
  // Whoever has a key of `*` may know what stands behind, also while looking at one tenant.
  const isOperator = request.principal.org === EVERY_ORG;
  const figures = metrics.figures();
  const [readiness, work, safety, bypasses, needsKey] = await Promise.all([
    readinessOf(gateway),
    tenant === EVERY_ORG ? workOfAll(engine) : workOf(engine, tenant),
    safetyOf(engine, tenant, isOperator),
    isOperator ? engine.world.store.total(FAIL_OPEN_TOTAL) : null,
    gateway.keys.exist(),
  ]);
  return ok({
    name,
    ...(isOperator ? about : ofItself(about)),
    policy: inForceView(engine.kernel),
    tenant,
    uptime_ms: Math.max(0, Math.round(clock.now() - startedMs)),
    ready: readiness.ready,
    ...(readiness.ready ? {} : { not_ready_because: readiness.reason }),
    needs_key: needsKey,
    ...work,
    workers: workersOf(engine, tenant),
    kill: killsOf(engine, tenant),
    safety,
    ...(isOperator ? figures : Object.fromEntries(Object.keys(figures).map((figure) => [figure, null]))),
    input_fail_open_total: bypasses,
  });
}

/** What a process says to everybody: nothing of the servers behind it. */
function ofItself({ version, profile, mode, durability }: About): About {
  return { version, profile, mode, durability, warnings: [] };
}

async function workOfAll({ world: { store } }: Engine): Promise<object> {
  const groups = [
    BACKLOG_GROUP,
    IN_FLIGHT_GROUP,
    WAITING_GROUP,
    PARKED_GROUP,
    APPROVALS_GROUP,
    "dead_letters",
    RUNS_GROUP,
  ];
  const [backlog, inFlight, waiting, parked, approvals, deadLetters, runs] = await Promise.all(
    groups.map((group) => store.counts(group, NAMES_MAX)),
  );
  return {
    backlog: plain(backlog),
    backlog_total: sum(backlog),
    in_flight: plain(inFlight),
    in_flight_total: sum(inFlight),
    waiting: plain(waiting),
    parked_retries: plain(parked),
    approvals: sum(approvals),
    approvals_by_tenant: plain(approvals),
    dead_letters: sum(deadLetters),
    dead_letters_by_tenant: plain(deadLetters),
    runs: { open: sum(runs), by_tenant: plain(runs) },
  };
}

/** Each counter by its own name, in a change that changes nothing: a group may have more tenants than are ever listed. */
async function workOf({ world: { store, clock }, settings }: Engine, org: string): Promise<object> {
  const topics = [...(await store.counts(BACKLOG_GROUP, NAMES_MAX)).keys()];
  const groups = [APPROVALS_GROUP, "dead_letters", ...topics.map(backlogGroupOf)];
  const watch = [runningOf(org), runsOpenOf(org), ...groups.map((group) => ({ group, name: org }))];
  const asked = await store.commit({ org, atMs: clock.now(), puts: [], guards: [], sends: [], watch });
  const [running = 0, runs = 0, approvals = 0, deadLetters = 0, ...own] = asked.kind === "committed" ? asked.seen : [];
  const backlog = topics.map((topic, at) => [topic, own[at] ?? 0] as const);
  const counted = new Map(backlog.filter(([, count]) => count > 0));
  return {
    backlog: plain(counted),
    backlog_total: sum(counted),
    in_flight: null,
    in_flight_total: running,
    waiting: null,
    parked_retries: null,
    approvals,
    dead_letters: deadLetters,
    runs: { open: runs, limit: runLimitOf(settings.current, org) },
  };
}

/** Who they are is told to `*` alone. */
function workersOf({ registry, world }: Engine, tenant: string): object {
  const nowMs = world.clock.now();
  const all = registry.list(nowMs).filter((worker) => tenant === EVERY_ORG || servesTenant(worker, tenant));
  const total = { total: all.length, leaving: all.filter((worker) => worker.isLeaving).length };
  if (tenant !== EVERY_ORG) return total;
  const items = all.slice(0, WORKERS_MAX).map((worker) => ({
    id: worker.id,
    topics: worker.topics.slice(0, 20),
    pool: worker.pool,
    transport: worker.transport,
    active_jobs: worker.activeJobs,
    max_parallel_jobs: worker.maxParallelJobs,
    seen_ago_ms: Math.max(0, Math.round(nowMs - worker.lastSeenMs)),
    leaving: worker.isLeaving,
  }));
  return { ...total, items };
}

/** As this process knows them: what it acts upon. */
function killsOf({ pools: { kills } }: Engine, tenant: string): readonly object[] {
  const isSeen = (scope: string) => tenant === EVERY_ORG || scope === tenant || scope === EVERY_SCOPE;
  return [...kills.values()].filter(({ scope }) => isSeen(scope)).map(killView);
}

async function safetyOf({ world, safety: { breaker } }: Engine, tenant: string, isOperator: boolean): Promise<object> {
  const { store, clock, safety } = world;
  const open = await store.list(FAIL_OPENS, { index: OPEN_GRANTS_LIST, limit: FAIL_OPEN_MAX.listed });
  const nowMs = clock.now();
  const leases = open.items
    .map((item) => item.value)
    .filter((lease) => isInForce(lease, nowMs) && (tenant === EVERY_ORG || covers(lease, tenant)));
  return {
    kernel: safety.local ? "in this process" : "elsewhere",
    breaker: breaker.kind,
    // What went wrong names addresses.
    ...(breaker.kind === "closed" || !isOperator ? {} : { breaker_reason: breaker.reason }),
    fail_open: leases.map(({ id, scope, reason, endsMs }) => ({
      id,
      scope,
      reason,
      ends_at: new Date(endsMs).toISOString(),
    })),
  };
}

type Counts = ReadonlyMap<string, number> | undefined;
const plain = (counted: Counts): object => Object.fromEntries(counted ?? []);
const sum = (counted: Counts): number => [...(counted?.values() ?? [])].reduce((all, count) => all + count, 0);

const NAMES_MAX = 1_000;
const WORKERS_MAX = 100;
