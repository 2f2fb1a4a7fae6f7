/**
 * Status: the process and its policy, queues, retries, workers, safety, and the latency figures.
 *
 * 1. A key of one tenant sees its own numbers. Values that are not kept per tenant are `null`, and the backing servers
 *    are hidden.
 * 2. A key of tenant `*` that names no tenant sees the numbers of all tenants.
 */
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
import { readAllBudgets, readBudgets } from "../../engine/limits/index.ts";
import { readLoad } from "../../engine/observe/index.ts";
import { runLimitOf } from "../../engine/runs/index.ts";
import { FAIL_OPEN_TOTAL } from "../../engine/safety/index.ts";
import { visibleTenant } from "../auth/access.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route, type ServerInfo } from "../route.ts";
import { budgetUseView } from "../views/budget-views.ts";
import { inForceView } from "../views/policy-views.ts";
import { statusSchema } from "../views/status-schema.ts";
import { DUTIES, dutiesView, readinessOf } from "./health.ts";
import { KILL, killViews } from "./kill-switch.ts";

export const STATUS_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/status",
    summary: "Get the status: process, policy, queues, retries, workers, safety and latency figures",
    access: "read",
    response: statusSchema(DUTIES, KILL),
    handle: getStatus,
  },
];

async function getStatus(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  return ok(await statusOf(gateway, request));
}

export async function statusOf(gateway: Gateway, request: GatewayRequest): Promise<object> {
  const { engine, info: about, metrics, startedMs } = gateway;
  const { clock, name } = engine.world;
  const tenant = visibleTenant(request);
  // Operators see the backing servers even when they select one tenant.
  const isOperator = request.principal.org === EVERY_ORG;
  const figures = metrics.figures();
  const [readiness, queues, safety, load, bypasses, needsKey, budgets] = await Promise.all([
    readinessOf(gateway),
    tenant === EVERY_ORG ? queuesOfAll(engine) : queuesOf(engine, tenant),
    safetyOf(engine, tenant, isOperator),
    isOperator ? loadOf(engine) : null,
    isOperator ? engine.world.store.total(FAIL_OPEN_TOTAL) : null,
    gateway.auth.anyKeyExists(),
    tenant === EVERY_ORG ? readAllBudgets(engine) : readBudgets(engine, tenant),
  ]);
  return {
    name,
    ...(isOperator ? operatorInfo(about) : publicInfo(about)),
    policy: inForceView(engine.kernel),
    tenant,
    uptime_ms: Math.max(0, Math.round(clock.now() - startedMs)),
    ready: readiness.ready,
    ...(readiness.ready ? {} : { not_ready_because: readiness.reason }),
    duties: dutiesView(gateway),
    needs_key: needsKey,
    ...queues,
    workers: workersOf(engine, tenant),
    budgets: budgets.map(budgetUseView),
    kill: await killsOf(engine, tenant),
    safety: load?.unreachable == null ? safety : { ...safety, unreachable: load.unreachable },
    ...load?.fields,
    ...(isOperator ? figures : Object.fromEntries(Object.keys(figures).map((figure) => [figure, null]))),
    input_fail_open_total: bypasses,
  };
}

function operatorInfo({ currentWarnings = () => [], ...about }: ServerInfo): ServerInfo {
  return { ...about, warnings: [...about.warnings, ...currentWarnings()] };
}

/** Without the backing servers. */
function publicInfo({ version, profile, mode, durability }: ServerInfo): ServerInfo {
  return { version, profile, mode, durability, warnings: [] };
}

async function queuesOfAll({ world: { store } }: Engine): Promise<object> {
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

/** Reads single counters through an empty commit: a group can have more tenants than a listing returns. */
async function queuesOf({ world: { store, clock }, settings }: Engine, org: string): Promise<object> {
  const topics = [...(await store.counts(BACKLOG_GROUP, NAMES_MAX)).keys()];
  const groups = [APPROVALS_GROUP, "dead_letters", ...topics.map(backlogGroupOf)];
  const watch = [runningOf(org), runsOpenOf(org), ...groups.map((group) => ({ group, name: org }))];
  const committed = await store.commit({ org, atMs: clock.now(), puts: [], guards: [], sends: [], watch });
  const [running = 0, runs = 0, approvals = 0, deadLetters = 0, ...own] =
    committed.kind === "committed" ? committed.seen : [];
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

/** Worker names are only visible to keys of `*`. */
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

/** The switches as cached by this process, which its dispatcher obeys. */
function killsOf(engine: Engine, tenant: string): Promise<readonly object[]> {
  const { kills } = engine.pools;
  const isVisible = (scope: string) => tenant === EVERY_ORG || scope === tenant || scope === EVERY_SCOPE;
  const visible = [...kills.values()].filter(({ scope }) => isVisible(scope));
  return killViews(engine, visible);
}

/** Disk, kernel and the tenants with the most open jobs, as they are now. */
async function loadOf(engine: Engine): Promise<{ readonly unreachable: string | null; readonly fields: object }> {
  const { disk, records, kernelDown } = await readLoad(engine);
  const { diskFreeMin } = engine.settings.current.diagnosis;
  return {
    unreachable: kernelDown,
    fields: {
      ...(records && {
        open_jobs: { total: records.openJobsTotal, by_tenant: Object.fromEntries(records.openJobs) },
      }),
      ...(disk === null
        ? {}
        : {
            disk: {
              path: disk.path,
              free_bytes: disk.freeBytes,
              size_bytes: disk.totalBytes,
              low: disk.freeBytes < diskFreeMin * disk.totalBytes,
            },
          }),
    },
  };
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
    // The reason contains addresses.
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
