import { isFinal, type Job } from "../core/model/job.ts";
import { OPEN_JOBS_GROUP, openJobsOf, quotaOf, storedBytesOf } from "../core/model/quota.ts";
import type { RetryClass } from "../core/retry/retry-classes.ts";
import type { Settings } from "../core/settings.ts";
import type { Committed, Guard } from "../ports/store.ts";
import type { Needs } from "./engine.ts";

/**
 * Quotas of a tenant: open jobs and stored bytes.
 *
 * 1. They are guards of the commit that admits a job or a run, so no race exceeds them.
 * 2. What was admitted continues: retries, results and steps of open runs are never refused by the backlog quota. Results
 *    count, and the next submission is refused.
 * 3. A replay is found before a quota refuses it, because the store checks versions first.
 */
export class QuotaExceeded extends Error {
  override readonly name = "QuotaExceeded";
  readonly code = "QUOTA_EXCEEDED";
  readonly quota: "backlog" | "stored_bytes";
  readonly current: number;
  readonly limit: number;
  /** On the bus the broker keeps the message: a shorter delay than `bus.park_after_ms` stores nothing. */
  readonly retryDelayMs: number;
  readonly retryClass: RetryClass = "throttled";

  constructor(org: string, isBacklog: boolean, current: number, limit: number, retryDelayMs: number) {
    super(
      isBacklog
        ? `tenant \`${org}\` has ${current} open jobs; \`limits.backlog_max\` is ${limit}; wait until some have ended`
        : `tenant \`${org}\` stores ${current} bytes of payloads; \`limits.stored_bytes_max\` is ${limit}; ` +
            "wait until the retention of earlier jobs ends, or send smaller values",
    );
    this.quota = isBacklog ? "backlog" : "stored_bytes";
    this.current = current;
    this.limit = limit;
    this.retryDelayMs = retryDelayMs;
  }
}

type CounterGuard = Extract<Guard, { kind: "counter" }>;

/** Room for one job. `adds`: jobs of the change; a run with many is admitted as soon as one of them has room. */
export const backlogGuard = (settings: Settings, org: string, adds = 1): CounterGuard => ({
  kind: "counter",
  counter: openJobsOf(org),
  max: quotaOf(settings, org, "backlogMax") - 1 + adds,
});

export const storedBytesGuard = (settings: Settings, org: string): CounterGuard => ({
  kind: "counter",
  counter: storedBytesOf(org),
  max: quotaOf(settings, org, "storedBytesMax"),
});

/** The quotas that a new job counts towards. */
export function admissionGuards(settings: Settings, { org, state, bytes }: Job): readonly Guard[] {
  const guards: Guard[] = isFinal(state) ? [] : [backlogGuard(settings, org)];
  if (bytes !== undefined) guards.push(storedBytesGuard(settings, org));
  return guards;
}

/** Throws if one of these quotas refused the commit. */
export function throwIfExceeded(
  { world, settings }: Needs<"world" | "settings">,
  org: string,
  guards: readonly Guard[],
  committed: Committed,
): void {
  if (committed.kind !== "refused" || committed.guard.kind !== "counter" || !guards.includes(committed.guard)) return;
  const isBacklog = committed.guard.counter.group === OPEN_JOBS_GROUP;
  const limit = quotaOf(settings.current, org, isBacklog ? "backlogMax" : "storedBytesMax");
  const delayMs = Math.round(DELAY_MS * (1 + world.random.next()));
  throw new QuotaExceeded(org, isBacklog, committed.value, limit, delayMs);
}

/** Before a large payload is written: a refused submission must not fill the blob store. */
export async function requireRoom(engine: Needs<"world" | "settings">, org: string, bytes: number): Promise<void> {
  const quota = storedBytesGuard(engine.settings.current, org);
  const { clock, store } = engine.world;
  const guard = { ...quota, max: quota.max - bytes };
  const change = { org, atMs: clock.now(), puts: [], guards: [guard], sends: [], watch: [] };
  throwIfExceeded(engine, org, [guard], await store.commit(change));
}

const DELAY_MS = 500;
