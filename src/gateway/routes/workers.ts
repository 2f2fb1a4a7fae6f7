/** Workers, worker pools and topics. */
import { Type } from "typebox";
import { servesTenant } from "../../core/jobs/select-target.ts";
import { EVERY_ORG } from "../../core/model/api-key.ts";
import { bareTopic } from "../../core/model/canonical.ts";
import { BACKLOG_GROUP, backlogGroupOf, IN_FLIGHT_GROUP } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { isPoolName, POOLS, POOLS_LIST, type Pool } from "../../core/model/kill-switch.ts";
import { explainWorkerNow } from "../../engine/observe/index.ts";
import { type ListedWorker, listWorkers, setDraining, type WorkerView } from "../../engine/workers/index.ts";
import { visibleTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { KEY_NAME, withKeyName, withKeyNames } from "../views/key-names.ts";
import { REASON, reasonView } from "../views/reasons.ts";
import { instant } from "../views/schemas.ts";

const LEASES_SHOWN = 20;

const WORKER = Type.Object(
  {
    worker_id: Type.String(),
    pool: Type.Union([Type.String(), Type.Null()]),
    topics: Type.Array(Type.String()),
    capabilities: Type.Array(Type.String()),
    active_jobs: Type.Integer(),
    max_parallel_jobs: Type.Union([Type.Integer(), Type.Null()]),
    transport: Type.String({ description: "`bus` or `http`." }),
    is_leaving: Type.Boolean(),
    last_seen: Type.String(),
    silent_ms: Type.Union([Type.Integer(), Type.Null()], {
      description: "For how long a worker is silent that still holds leases; null for a worker that is there.",
    }),
    leases: Type.Array(
      Type.Object({ job_id: Type.String(), topic: Type.String(), deadline: instant("When the lease ends.") }),
      { description: `Open leases of an HTTP worker, at most ${LEASES_SHOWN}; those of the caller's tenant.` },
    ),
  },
  { title: "Worker" },
);
const WORKER_EXPLANATION = Type.Object(
  {
    worker: WORKER,
    state: Type.String({
      description: "`blocked` (it gets no jobs), `silent`, `leaving`, `full`, `working` or `idle`.",
    }),
    reasons: Type.Array(REASON),
  },
  { title: "WorkerExplanation" },
);
const POOL = Type.Object(
  {
    name: Type.String(),
    topics: Type.Array(Type.String(), { description: "Topic patterns from the settings." }),
    requires: Type.Array(Type.String()),
    workers: Type.Integer(),
    draining: Type.Boolean(),
    changed_by: Type.Union([Type.String(), Type.Null()]),
    changed_by_name: KEY_NAME,
    changed_at: Type.Union([Type.String(), Type.Null()]),
  },
  { title: "Pool" },
);
const TOPIC = Type.Object(
  {
    topic: Type.String(),
    workers: Type.Integer(),
    waiting: Type.Integer({
      description: "Jobs in the backlog: of the tenant, or of all tenants for a key of tenant `*`.",
    }),
    running: Type.Union([Type.Integer(), Type.Null()], {
      description: "Dispatched jobs of all tenants; null unless the key is of tenant `*`.",
    }),
  },
  { title: "Topic" },
);
const listOf = <T extends Parameters<typeof Type.Array>[0]>(item: T) =>
  Type.Object({ items: Type.Array(item), next_cursor: Type.Null() });

export const WORKERS_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/workers",
    summary: "List live workers, and silent ones that hold leases",
    access: "read",
    response: listOf(WORKER),
    handle: listAll,
  },
  {
    method: "GET",
    path: "/api/v1/workers/:id",
    summary: "Get a live worker, or a silent one that holds leases",
    access: "read",
    response: WORKER,
    handle: async (gateway, request) => ok(workerView(await workerOf(gateway, request), request)),
  },
  {
    method: "GET",
    path: "/api/v1/workers/:id/explain",
    summary: "Explain why a worker gets jobs, or why it gets none",
    access: "read",
    response: WORKER_EXPLANATION,
    handle: explainOne,
  },
  {
    method: "GET",
    path: "/api/v1/pools",
    summary: "List worker pools",
    access: "read",
    response: listOf(POOL),
    handle: listPools,
  },
  {
    method: "POST",
    path: "/api/v1/pools/:name/drain",
    summary: "Drain a pool: its workers receive no new jobs and finish those they have",
    access: "system",
    response: POOL,
    handle: (gateway, request) => changePool(gateway, request, true),
  },
  {
    method: "POST",
    path: "/api/v1/pools/:name/resume",
    summary: "Resume a drained pool",
    access: "system",
    response: POOL,
    handle: (gateway, request) => changePool(gateway, request, false),
  },
  {
    method: "GET",
    path: "/api/v1/topics",
    summary: "List topics that have workers or jobs",
    access: "read",
    response: listOf(TOPIC),
    handle: listTopics,
  },
];

const listed = (items: readonly object[]): GatewayResponse => ok({ items, next_cursor: null });

/** Bus workers serve all tenants; HTTP workers serve the tenant of their key. */
function workersFor({ engine }: Gateway, { org, principal }: GatewayRequest): readonly WorkerView[] {
  const workers = engine.registry.list(engine.world.clock.now());
  if (principal.org === EVERY_ORG) return workers;
  return workers.filter((worker) => servesTenant(worker, org));
}

async function listAll(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  return listed((await listedFor(gateway, request)).map((worker) => workerView(worker, request)));
}

async function listedFor({ engine }: Gateway, { org, principal }: GatewayRequest): Promise<readonly ListedWorker[]> {
  if (principal.org === EVERY_ORG) return listWorkers(engine, EVERY_ORG);
  return (await listWorkers(engine, org)).filter((worker) => servesTenant(worker, org));
}

async function workerOf(gateway: Gateway, request: GatewayRequest): Promise<ListedWorker> {
  const id = request.params.id ?? "";
  const worker = (await listedFor(gateway, request)).find((one) => one.id === id);
  if (worker) return worker;
  const detail = `no live worker \`${id.slice(0, 128)}\`; \`GET /api/v1/workers\` lists them`;
  throw new Problem("worker_not_found", detail);
}

async function explainOne(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const worker = await workerOf(gateway, request);
  const { org, principal } = request;
  const { state, reasons } = await explainWorkerNow(gateway.engine, {
    worker,
    org,
    isForAll: principal.org === EVERY_ORG,
  });
  return ok({ worker: workerView(worker, request), state, reasons: reasons.map(reasonView) });
}

function workerView(worker: ListedWorker, request: GatewayRequest): object {
  const tenant = visibleTenant(request);
  return {
    worker_id: worker.id,
    pool: worker.pool,
    topics: worker.topics,
    capabilities: worker.capabilities,
    active_jobs: worker.activeJobs,
    max_parallel_jobs: worker.maxParallelJobs,
    transport: worker.transport,
    is_leaving: worker.isLeaving,
    last_seen: new Date(worker.lastSeenMs).toISOString(),
    silent_ms: worker.silentMs,
    leases: worker.leases.slice(0, LEASES_SHOWN).map(({ id, topic, dueMs }) => ({
      job_id: clientJobId(tenant, id),
      topic,
      deadline: new Date(dueMs).toISOString(),
    })),
  };
}

/** A tenant sees the pools of the settings and of its visible workers, not the pools that only others use. */
async function listPools(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { engine } = gateway;
  const records = await poolRecords(engine);
  const workers = workersFor(gateway, request);
  const named = workers.flatMap(({ pool }) => (pool === null ? [] : [pool]));
  const kept = request.principal.org === EVERY_ORG ? records.keys() : [];
  const names = new Set([...Object.keys(engine.settings.current.pools), ...kept, ...named]);
  const views = [...names].sort().map((name) => poolView(engine, name, records.get(name), workers));
  return listed(await withKeyNames(engine.world.store, views, "changed_by"));
}

async function changePool({ engine }: Gateway, { params, principal }: GatewayRequest, isDraining: boolean) {
  const name = params.name ?? "";
  const workers = engine.registry.list(engine.world.clock.now());
  const isNamed = workers.some((worker) => worker.pool === name);
  const before = await engine.world.store.load(POOLS, name);
  if (!isPoolName(name) || !(before || isNamed || engine.settings.current.pools[name])) {
    const detail = `no pool \`${name.slice(0, 64)}\` in \`pools.*\` or named by a worker; \`GET /api/v1/pools\` lists them`;
    throw new Problem("pool_not_found", detail);
  }
  const pool = await setDraining(engine, name, isDraining, principal.id);
  const view = poolView(engine, name, pool ?? before?.value, workers);
  return ok(await withKeyName(engine.world.store, view, "changed_by"));
}

async function poolRecords({ world }: Gateway["engine"]): Promise<ReadonlyMap<string, Pool>> {
  const page = await world.store.list(POOLS, { index: POOLS_LIST, limit: POOLS_MAX });
  return new Map(page.items.flatMap(({ id, value }) => ("isDraining" in value ? [[id, value]] : [])));
}

function poolView(
  engine: Gateway["engine"],
  name: string,
  record: Pool | undefined,
  workers: readonly WorkerView[],
): object {
  const settings = engine.settings.current.pools[name];
  return {
    name,
    topics: settings?.topics ?? [],
    requires: settings?.requires ?? [],
    workers: workers.filter(({ pool }) => pool === name).length,
    draining: record?.isDraining ?? false,
    changed_by: record?.by ?? null,
    changed_at: record ? new Date(record.atMs).toISOString() : null,
  };
}

async function listTopics(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { store } = gateway.engine.world;
  const workers = new Map<string, number>();
  for (const { topics } of workersFor(gateway, request)) {
    for (const topic of topics) workers.set(bareTopic(topic), (workers.get(bareTopic(topic)) ?? 0) + 1);
  }
  if (request.principal.org !== EVERY_ORG) return listed(await ownTopics(gateway, request.org, workers));
  const [waiting, running] = await Promise.all([
    store.counts(BACKLOG_GROUP, TOPICS_MAX),
    store.counts(IN_FLIGHT_GROUP, TOPICS_MAX),
  ]);
  const names = [...new Set([...waiting.keys(), ...running.keys(), ...workers.keys()])].sort();
  return listed(
    names.slice(0, TOPICS_MAX).map((topic) => ({
      topic,
      workers: workers.get(bareTopic(topic)) ?? 0,
      waiting: waiting.get(topic) ?? 0,
      running: running.get(topic) ?? 0,
    })),
  );
}

/** A tenant sees the topics of its visible workers, with its own jobs. */
async function ownTopics(
  { engine }: Gateway,
  org: string,
  workers: ReadonlyMap<string, number>,
): Promise<readonly object[]> {
  const topics = [...workers].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, OWN_TOPICS_MAX);
  return Promise.all(
    topics.map(async ([topic, count]) => {
      const names = [topic, `job.${topic}`];
      const counts = await Promise.all(
        names.map((name) => engine.world.store.counts(backlogGroupOf(name), TOPICS_MAX)),
      );
      const waiting = counts.reduce((sum, orgs) => sum + (orgs.get(org) ?? 0), 0);
      return { topic, workers: count, waiting, running: null };
    }),
  );
}

const OWN_TOPICS_MAX = 200;
const POOLS_MAX = 1_000;
const TOPICS_MAX = 10_000;
