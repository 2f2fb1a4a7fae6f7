import { type Job, moveJob } from "../model/job.ts";
import { chooseDelay, type DecisionContext, waitFor } from "./transitions.ts";

/**
 * Selects the dispatch target of a job.
 *
 * 1. The job goes to the least loaded worker that has its own subject, meets the requirements, and is in no draining
 *    pool. Without such a worker it goes to the topic's queue group.
 * 2. Workers that send no heartbeat are reachable only through the topic.
 * 3. While a pool of the topic drains, the topic's subject would reach its workers too. Then jobs are sent directly or
 *    wait.
 * 4. A job whose requirements no known worker of the topic meets waits for one that does.
 * 5. Workers of other tenants are ignored.
 * 6. A worker that supports other protocol versions only gets no job. Like draining workers, it is reachable through the
 *    topic's subject, so jobs are sent directly to other workers or wait.
 */
export interface Candidate {
  readonly id: string;
  readonly pool: string | null;
  readonly transport: "bus" | "http";
  /** The tenant it works for; null for all. */
  readonly org: string | null;
  readonly capabilities: ReadonlySet<string>;
  readonly isDirect: boolean;
  readonly isUnsupported: boolean;
  readonly load: number;
  readonly loadMax: number;
}

/** Bus workers and workers with a `*` key serve all tenants; other HTTP workers serve their own tenant. */
export const servesTenant = ({ org }: Pick<Candidate, "org">, tenant: string): boolean =>
  org === null || org === "*" || org === tenant;

export interface Work {
  readonly org: string;
  readonly requires: readonly string[];
}

export interface PoolsOfTopic {
  readonly draining: ReadonlySet<string>;
  /** Pools whose settings name the topic. */
  readonly named: readonly string[];
}

export type DispatchTarget =
  /** `takesInline`: the input may travel in the message only. */
  | { readonly kind: "direct"; readonly workerId: string; readonly takesInline: boolean }
  | { readonly kind: "topic" }
  /** Only HTTP workers are eligible; they lease it from the backlog. */
  | { readonly kind: "lease" }
  /** `isForAll`: no job of the topic can be sent, whatever it requires. */
  | { readonly kind: "wait"; readonly why: string; readonly isForAll: boolean };

export function selectTarget(work: Work, workers: readonly Candidate[], pools: PoolsOfTopic): DispatchTarget {
  const { requires, org } = work;
  let best: Candidate | null = null;
  let [isAlone, hasOthers, hasComing, hasDrained, hasUnsupported] = [true, false, false, false, false];
  for (const worker of workers) {
    if (worker.isUnsupported) hasUnsupported = true;
    if (worker.isUnsupported || !servesTenant(worker, org)) continue;
    isAlone = false;
    if (worker.pool !== null && pools.draining.has(worker.pool)) {
      hasDrained = true;
      continue;
    }
    if (requires.length > 0 && !hasCapabilities(worker.capabilities, requires)) continue;
    if (worker.transport === "http") hasComing = true;
    else if (!worker.isDirect) hasOthers = true;
    else if (best === null || isLessLoaded(worker, best)) best = worker;
  }
  // At capacity, while other workers are reachable only through the topic: let the queue group choose.
  const isBetterLeft = best !== null && hasOthers && !hasDrained && !hasUnsupported && best.load >= best.loadMax;
  if (best !== null && !isBetterLeft) {
    return { kind: "direct", workerId: best.id, takesInline: best.capabilities.has("inline") };
  }
  const drained = hasUnsupported ? UNSUPPORTED_WORKER : drainReason(hasDrained, pools);
  if (drained !== null) {
    if (hasComing) return FOR_LEASE;
    const isForAll = !workers.some((worker) => servesTenant(worker, org) && isEligible(worker, pools));
    return { kind: "wait", why: drained, isForAll };
  }
  if (requires.length === 0 || hasOthers || isAlone) return TO_TOPIC;
  if (hasComing) return FOR_LEASE;
  return { kind: "wait", why: noCapableWorker(requires), isForAll: false };
}

export const noCapableWorker = (requires: readonly string[]): string =>
  `no worker of the topic has ${requires.map((name) => `\`${name}\``).join(", ")}`;

export const hasCapabilities = (abilities: ReadonlySet<string>, requires: readonly string[]): boolean =>
  requires.every((name) => abilities.has(name));

/** No eligible worker: the job leaves the backlog and is retried later. */
export function waitForWorker(job: Job, why: string, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "no_worker", undefined, context);
  return Object.assign(
    moveJob(job, "RETRYING", context.nowMs),
    waitFor(job, "no_worker", "no_worker", why, delayMs, setBy, context),
  );
}

const TO_TOPIC: DispatchTarget = { kind: "topic" };
const FOR_LEASE: DispatchTarget = { kind: "lease" };

/** A worker takes jobs from the topic's queue group that it cannot decode. */
const UNSUPPORTED_WORKER = "a worker of the topic supports only other protocol versions; update or stop it";

const isEligible = ({ pool, isDirect, transport, isUnsupported }: Candidate, { draining }: PoolsOfTopic): boolean =>
  !isUnsupported && (isDirect || transport === "http") && (pool === null || !draining.has(pool));

/** Compares relative load; absolute load if a capacity is unknown. */
function isLessLoaded(one: Candidate, other: Candidate): boolean {
  if (!Number.isFinite(one.loadMax) || !Number.isFinite(other.loadMax)) return one.load < other.load;
  return one.load * other.loadMax < other.load * one.loadMax;
}

/** Why the topic's subject cannot be used: it would reach draining workers. */
function drainReason(hasDrained: boolean, { draining, named }: PoolsOfTopic): string | null {
  if (draining.size === 0) return null;
  if (hasDrained || (named.length > 0 && named.every((pool) => draining.has(pool)))) {
    return "the pool of the topic is draining";
  }
  return null;
}
