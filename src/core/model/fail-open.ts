import type { Job } from "./job.ts";
import type { CounterName, Placement, Table } from "./table.ts";

/**
 * A fail-open lease: while the safety kernel is unavailable, jobs of its scope may be dispatched without a verdict.
 *
 * 1. It ends at most 4 hours after it was opened.
 * 2. Clock changes cannot extend it: a lease opened or seen later than now (beyond the clock tolerance) is not in
 *    force. `seenMs` is updated once a minute; a running process also measures elapsed time itself.
 * 3. Once ended it stays ended. A separate counter records the end and guards every commit that relies on the lease.
 */
export interface FailOpenGrant {
  readonly id: string;
  /** A tenant, or `*` for all. */
  readonly scope: string;
  readonly reason: string;
  /** The approver. */
  readonly by: string;
  readonly openedMs: number;
  readonly endsMs: number;
  /** The last time a process checked it. */
  readonly seenMs: number;
  readonly ended?: { readonly atMs: number; readonly by: string };
  /** Next check: once a minute, at its end, and for removal. */
  readonly dueMs: number;
}

export const ALL_TENANTS = "*";
export const FAIL_OPEN_MS = { default: 30 * 60_000, max: 4 * 3_600_000, min: 1_000 } as const;
/** Maximum clock skew between healthy machines. */
export const CLOCK_TOLERANCE_MS = 5_000;
const SEEN_EVERY_MS = 60_000;
/**
 * Limits on open leases. Each scope has its own limit, so that no tenant uses up another's. Leases of `*` do not count
 * towards `ofTenants`: they are the ones needed in an outage.
 */
export const FAIL_OPEN_MAX = { ofScope: 5, ofTenants: 200, listed: 205 } as const;

export const FAIL_OPENS: Table<FailOpenGrant> = {
  name: "fail-open",
  placement: (lease): Placement => ({
    lists: [
      { name: grantsOf(null), score: lease.openedMs },
      { name: grantsOf(lease.scope), score: lease.openedMs },
      ...(lease.ended ? [] : [{ name: OPEN_GRANTS_LIST, score: lease.openedMs }]),
    ],
    queue: null,
    counters: lease.ended ? [endedOf(lease.id)] : openCountersOf(lease.scope).map(({ counter }) => counter),
    dueMs: lease.dueMs,
  }),
};

/** All leases, or those of one scope. */
export const grantsOf = (scope: string | null): string => (scope === null ? "fail-open" : `fail-open/of/${scope}`);
export const OPEN_GRANTS_LIST = "fail-open/open";
/** Counters of an open lease and their limits. */
export function openCountersOf(scope: string): readonly { readonly counter: CounterName; readonly max: number }[] {
  const own = { counter: { group: "fail-open-of", name: scope }, max: FAIL_OPEN_MAX.ofScope };
  const ofTenants = { counter: { group: "fail-open", name: "tenants" }, max: FAIL_OPEN_MAX.ofTenants };
  return scope === ALL_TENANTS ? [own] : [own, ofTenants];
}
/** 1 once the lease has ended. */
export const endedOf = (leaseId: string) => ({ group: "fail-open-ended", name: leaseId });

export function openGrant(
  request: { readonly id: string; readonly scope: string; readonly reason: string; readonly by: string },
  forMs: number,
  nowMs: number,
): FailOpenGrant {
  const endsMs = nowMs + Math.min(forMs, FAIL_OPEN_MS.max);
  return observeGrant({ ...request, openedMs: nowMs, endsMs, seenMs: nowMs, dueMs: endsMs }, nowMs);
}

/** Records a check of a lease that has not ended. */
export function observeGrant(lease: FailOpenGrant, nowMs: number): FailOpenGrant {
  return { ...lease, seenMs: Math.max(lease.seenMs, nowMs), dueMs: Math.min(lease.endsMs, nowMs + SEEN_EVERY_MS) };
}

/** `null` if it has already ended. */
export function endGrant(lease: FailOpenGrant, by: string, nowMs: number, keepMs: number): FailOpenGrant | null {
  if (lease.ended) return null;
  return { ...lease, ended: { atMs: nowMs, by }, dueMs: nowMs + keepMs };
}

/** Judged by the clock alone. NaN in a tampered record fails the comparisons, so such a lease is not in force. */
export function isInForce(lease: FailOpenGrant, nowMs: number): boolean {
  if (lease.ended !== undefined) return false;
  if (!(lease.endsMs - lease.openedMs <= FAIL_OPEN_MS.max)) return false;
  return nowMs < lease.endsMs && Math.max(lease.openedMs, lease.seenMs) <= nowMs + CLOCK_TOLERANCE_MS;
}

/** True if the fail-open lease is the job's only permission, with no later verdict. */
export const isFailOpenOnly = (job: Job): boolean => job.bypass !== undefined && job.safety?.snapshot === "";

export const covers = (lease: FailOpenGrant, org: string): boolean =>
  lease.scope === ALL_TENANTS || lease.scope === org;
