import type { Job } from "../model/job.ts";
import { moveJob } from "../model/move-job.ts";
import { chooseDelay, type DecisionContext, waitFor } from "./transitions.ts";

/**
 * Which worker a job is sent to.
 *
 * 1. To the one with the most room among those that listen on a subject of their own, can do what the job requires, and
 *    are not in a pool that is being drained; else to the topic, where whoever serves it takes it.
 * 2. Workers that say nothing of themselves are reached through the topic alone.
 * 3. While a pool of the topic is being drained, the topic's subject would reach its workers too: then the others get
 *    work directly or not at all, and what finds nobody waits.
 * 4. A job whose requirements none of the known workers of its topic meets waits until one comes that does.
 * 5. Who works for another tenant alone is not there: it decides nothing about the job.
 */
export interface Candidate {
  readonly id: string;
  readonly pool: string | null;
  readonly transport: "bus" | "http";
  /** Whose work it does; null for anybody's. */
  readonly org: string | null;
  readonly capabilities: ReadonlySet<string>;
  readonly isDirect: boolean;
  readonly load: number;
  readonly loadMax: number;
}

/** Workers on the bus work for everybody, and so does one with a key of `*`; any other over HTTP is its tenant's own. */
export const worksFor = ({ org }: Pick<Candidate, "org">, tenant: string): boolean =>
  org === null || org === "*" || org === tenant;

export interface Work {
  readonly org: string;
  readonly requires: readonly string[];
}

export interface PoolsOfTopic {
  readonly draining: ReadonlySet<string>;
  /** The pools whose settings name the topic; empty when none does. */
  readonly named: readonly string[];
}

export type DispatchTarget =
  /** `takesInline`: the input may be in the message alone. */
  | { readonly kind: "direct"; readonly workerId: string; readonly takesInline: boolean }
  | { readonly kind: "topic" }
  /** Only workers that come for their work themselves are fit for it: it stays where they find it. */
  | { readonly kind: "lease" }
  /** `isForAll`: no job of the topic can go, whatever it requires. */
  | { readonly kind: "wait"; readonly why: string; readonly isForAll: boolean };

export function selectTarget(work: Work, workers: readonly Candidate[], pools: PoolsOfTopic): DispatchTarget {
  const { requires, org } = work;
  let best: Candidate | null = null;
  let [isAlone, hasOthers, hasComing, hasDrained] = [true, false, false, false];
  for (const worker of workers) {
    if (!worksFor(worker, org)) continue;
    isAlone = false;
    if (worker.pool !== null && pools.draining.has(worker.pool)) {
      hasDrained = true;
      continue;
    }
    if (requires.length > 0 && !canDo(worker.capabilities, requires)) continue;
    if (worker.transport === "http") hasComing = true;
    else if (!worker.isDirect) hasOthers = true;
    else if (best === null || isRoomier(worker, best)) best = worker;
  }
  // Full, and there are others who cannot be asked directly: whoever takes it from the topic.
  const isBetterLeft = best !== null && hasOthers && !hasDrained && best.load >= best.loadMax;
  if (best !== null && !isBetterLeft) {
    return { kind: "direct", workerId: best.id, takesInline: best.capabilities.has("inline") };
  }
  const drained = whyDrained(hasDrained, pools);
  if (drained !== null) {
    if (hasComing) return FOR_LEASE;
    const isForAll = !workers.some((worker) => worksFor(worker, org) && isOpen(worker, pools));
    return { kind: "wait", why: drained, isForAll };
  }
  if (requires.length === 0 || hasOthers || isAlone) return AT_TOPIC;
  if (hasComing) return FOR_LEASE;
  const wanted = requires.map((name) => `\`${name}\``).join(", ");
  return { kind: "wait", why: `no worker of the topic that is known can do ${wanted}`, isForAll: false };
}

export const canDo = (abilities: ReadonlySet<string>, requires: readonly string[]): boolean =>
  requires.every((name) => abilities.has(name));

/** A job that no worker is fit for now: it comes back later, and does not stand in the way of others. */
export function waitForWorker(job: Job, why: string, context: DecisionContext): Job {
  const { delayMs, setBy } = chooseDelay(job, "no_worker", undefined, context);
  return Object.assign(
    moveJob(job, "RETRYING", context.nowMs),
    waitFor(job, "no_worker", "no_worker", why, delayMs, setBy, context),
  );
}

const AT_TOPIC: DispatchTarget = { kind: "topic" };
const FOR_LEASE: DispatchTarget = { kind: "lease" };

const isOpen = ({ pool, isDirect, transport }: Candidate, { draining }: PoolsOfTopic): boolean =>
  (isDirect || transport === "http") && (pool === null || !draining.has(pool));

/** By the share of its places that is taken; where nobody said how many it has, by their number. */
function isRoomier(one: Candidate, other: Candidate): boolean {
  if (!Number.isFinite(one.loadMax) || !Number.isFinite(other.loadMax)) return one.load < other.load;
  return one.load * other.loadMax < other.load * one.loadMax;
}

/** Why the topic's subject may not be used: those who would hear it are to get nothing new. */
function whyDrained(hasDrained: boolean, { draining, named }: PoolsOfTopic): string | null {
  if (draining.size === 0) return null;
  if (hasDrained || (named.length > 0 && named.every((pool) => draining.has(pool)))) {
    return "the pool that serves the topic is being drained";
  }
  return null;
}
