import { explainWorker, type WorkerExplanation } from "../../core/jobs/explain-worker.ts";
import { BACKLOG_GROUP, backlogGroupOf } from "../../core/model/job.ts";
import { EVERY_SCOPE } from "../../core/model/kill-switch.ts";
import { workSubject } from "../../protocol/subjects.ts";
import type { Needs } from "../engine.ts";
import { breakerRefusal } from "../safety/index.ts";
import type { ListedWorker } from "../workers/index.ts";

type Explaining = Needs<"world" | "settings" | "tasks" | "pools" | "safety">;

export interface ExplainWorkerRequest {
  readonly worker: ListedWorker;
  readonly org: string;
  /** The caller may see all tenants. Other callers see their own jobs, and no errors of servers. */
  readonly isForAll: boolean;
}

/** Loads what the explanation of a worker needs; the rules are in `core/jobs/explain-worker.ts`. */
export async function explainWorkerNow(engine: Explaining, request: ExplainWorkerRequest): Promise<WorkerExplanation> {
  const { worker, org, isForAll } = request;
  const { pools, settings } = engine;
  const { pool } = worker;
  const isOfOne = worker.org !== null && worker.org !== EVERY_SCOPE;
  const killed =
    isOfOne || !isForAll ? pools.killOf(isOfOne ? (worker.org ?? org) : org) : pools.kills.get(EVERY_SCOPE);
  return explainWorker(
    {
      ...worker,
      leasesEndMs: worker.leases.map(({ dueMs }) => dueMs),
      poolTopics: pool === null ? [] : (settings.current.pools[pool]?.topics ?? []),
    },
    {
      silentAtMs: worker.lastSeenMs + settings.current.worker.silentMs,
      isDraining: pool !== null && pools.draining.has(pool),
      killed: killed ?? null,
      breaker: isForAll ? breakerRefusal(engine) : null,
      waiting: await waitingFor(engine, request),
    },
  );
}

/** Jobs in the backlog by topic; a topic is stored with or without `job.`. */
async function waitingFor(
  { world: { store }, pools }: Explaining,
  { worker: { topics, pool }, org, isForAll }: ExplainWorkerRequest,
): Promise<readonly (readonly [string, number])[]> {
  const subjects = new Set(topics.map(workSubject));
  const serves = (topic: string) =>
    subjects.size > 0 ? subjects.has(workSubject(topic)) : pool !== null && pools.namedFor(topic).includes(pool);
  const backlogs = [...(await store.counts(BACKLOG_GROUP, TOPICS_MAX))].filter(([topic]) => serves(topic));
  if (isForAll) return backlogs;
  const own = await Promise.all(
    backlogs.map(async ([topic]) => {
      const count = (await store.counts(backlogGroupOf(topic), ORGS_MAX)).get(org) ?? 0;
      return [topic, count] as const;
    }),
  );
  return own.filter(([, count]) => count > 0);
}

const TOPICS_MAX = 10_000;
const ORGS_MAX = 10_000;
