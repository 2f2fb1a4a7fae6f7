import type { Job } from "./job.ts";
import type { CounterName, Placement, Table } from "./table.ts";

/**
 * A fail-open lease: while the safety kernel does not answer, jobs of its scope may go without a verdict.
 *
 * 1. It has an end, 4 hours after its opening at the latest. There is no way to write one without.
 * 2. No clock prolongs it: one that was opened, or seen, later than now (beyond what clocks differ by) is not in force.
 *    That it was seen is written down once a minute; a running process also counts the time that passes by itself.
 * 3. Once ended it stays ended. That stands in a counter of its own, which guards every commit made by virtue of the
 *    lease: nothing goes out under a lease that somebody has closed.
 */
export interface FailOpenGrant {
  readonly id: string;
  /** A tenant, or `*` for all of them. */
  readonly scope: string;
  readonly reason: string;
  /** Who approved it. */
  readonly by: string;
  readonly openedMs: number;
  readonly endsMs: number;
  /** The latest time at which a process has looked after it. */
  readonly seenMs: number;
  readonly ended?: { readonly atMs: number; readonly by: string };
  /** When somebody looks after it: once a minute, at its end, and to remove it. */
  readonly dueMs: number;
}

export const ALL_TENANTS = "*";
export const FAIL_OPEN_MS = { default: 30 * 60_000, max: 4 * 3_600_000, min: 1_000 } as const;
/** By how much clocks of healthy machines may differ. */
export const CLOCK_TOLERANCE_MS = 5_000;
const SEEN_EVERY_MS = 60_000;
/**
 * Open leases at the same time; more are a mistake. Each scope has places of its own, so that no tenant takes those of the
 * others, and those of `*` are beside what all tenants together may have: in an outage they are the ones that are needed.
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

/** All of them, or those of one scope. */
export const grantsOf = (scope: string | null): string => (scope === null ? "fail-open" : `fail-open/of/${scope}`);
export const OPEN_GRANTS_LIST = "fail-open/open";
/** What an open lease of a scope counts towards, and how many there may be. */
export function openCountersOf(scope: string): readonly { readonly counter: CounterName; readonly max: number }[] {
  const own = { counter: { group: "fail-open-of", name: scope }, max: FAIL_OPEN_MAX.ofScope };
  const ofTenants = { counter: { group: "fail-open", name: "tenants" }, max: FAIL_OPEN_MAX.ofTenants };
  return scope === ALL_TENANTS ? [own] : [own, ofTenants];
}
/** 1 when the lease has ended. */
export const endedOf = (leaseId: string) => ({ group: "fail-open-ended", name: leaseId });

export function openGrant(
  request: { readonly id: string; readonly scope: string; readonly reason: string; readonly by: string },
  forMs: number,
  nowMs: number,
): FailOpenGrant {
  const endsMs = nowMs + Math.min(forMs, FAIL_OPEN_MS.max);
  return observeGrant({ ...request, openedMs: nowMs, endsMs, seenMs: nowMs, dueMs: endsMs }, nowMs);
}

/** Looked after, and not over yet. */
export function observeGrant(lease: FailOpenGrant, nowMs: number): FailOpenGrant {
  return { ...lease, seenMs: Math.max(lease.seenMs, nowMs), dueMs: Math.min(lease.endsMs, nowMs + SEEN_EVERY_MS) };
}

/** `null` when it has ended already. */
export function endGrant(lease: FailOpenGrant, by: string, nowMs: number, keepMs: number): FailOpenGrant | null {
  if (lease.ended) return null;
  return { ...lease, ended: { atMs: nowMs, by }, dueMs: nowMs + keepMs };
}

/** By the clock alone. Written so that a record that somebody has tampered with is not in force either. */
export function isInForce(lease: FailOpenGrant, nowMs: number): boolean {
  if (lease.ended !== undefined) return false;
  if (!(lease.endsMs - lease.openedMs <= FAIL_OPEN_MS.max)) return false;
  return nowMs < lease.endsMs && Math.max(lease.openedMs, lease.seenMs) <= nowMs + CLOCK_TOLERANCE_MS;
}

/** A job whose only permission is a lease: a verdict that came later has taken its place. */
export const isFailOpenOnly = (job: Job): boolean => job.bypass !== undefined && job.safety?.snapshot === "";

export const covers = (lease: FailOpenGrant, org: string): boolean =>
  lease.scope === ALL_TENANTS || lease.scope === org;
