import { askAgain } from "../../core/jobs/bypass.ts";
import {
  covers,
  EVERYBODY,
  endLease,
  FAIL_OPEN_MAX,
  FAIL_OPEN_MS,
  FAIL_OPENS,
  type FailOpen,
  isInForce,
  isOnLease,
  leasesOf,
  OPEN_LEASES_LIST,
  openCountersOf,
  openLease,
  seeLease,
} from "../../core/model/fail-open.ts";
import type { Job } from "../../core/model/job.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { audited } from "../audit/audit-log.ts";
import { tellChanged } from "../change-broadcast.ts";
import { apply, untilFresh } from "../commit.ts";
import { type Flow, given } from "../engine.ts";

/**
 * Fail-open leases: opened by a human for a while, ended by themselves (see `model/fail-open.ts`).
 *
 * 1. A process that has seen a lease counts down the time that is left, whatever becomes of its clock; a lease that was
 *    over once does not come back.
 * 2. The open leases are kept in memory, and read again when others tell of a change and after `RENEW_MS`. A lease that
 *    was closed meanwhile is refused by the store: every commit that stands on a lease has its guard.
 */
export interface FailOpenWish {
  readonly scope: string;
  readonly reason: string;
  /** Who approved it. */
  readonly by: string;
  readonly forMs: number;
}

export type Opened =
  | { readonly kind: "opened"; readonly lease: FailOpen }
  | { readonly kind: "bad"; readonly why: string }
  | { readonly kind: "too_many"; readonly limit: number };

export async function openFailOpen(flow: Flow, wish: FailOpenWish): Promise<Opened> {
  const why = objectionTo(wish);
  if (why !== null) return { kind: "bad", why };
  const { clock, log, random } = flow.world;
  const { scope, by, forMs } = wish;
  const reason = wish.reason.trim();
  const lease = openLease({ id: random.id(), scope, reason, by }, forMs, clock.now());
  const committed = await apply(flow, {
    org: scope,
    puts: [put(FAIL_OPENS, lease.id, null, lease), noteOf(flow, lease, by, "opened")],
    guards: openCountersOf(scope).map((bound) => ({ kind: "counter", ...bound })),
  });
  if (committed.kind === "refused") {
    return { kind: "too_many", limit: committed.guard.kind === "counter" ? committed.guard.max : 0 };
  }
  if (committed.kind === "stale") throw new Error(`lease \`${lease.id}\` exists already`);
  const until = new Date(lease.endsMs).toISOString();
  log.write("warn", "fail_open_opened", { lease: lease.id, scope, reason, by, until });
  changed(flow);
  return { kind: "opened", lease };
}

export type Closed =
  | { readonly kind: "closed"; readonly lease: FailOpen }
  | { readonly kind: "ended"; readonly lease: FailOpen }
  | { readonly kind: "not_found" };

export function closeFailOpen(flow: Flow, id: string, by: string): Promise<Closed> {
  return untilFresh(`fail-open lease \`${id}\``, async () => {
    const found = await flow.world.store.load(FAIL_OPENS, id);
    if (!found) return { kind: "not_found" };
    const lease = await end(flow, found, by, "closed");
    if (lease === null) return { kind: "ended", lease: found.value };
    return lease === "stale" ? "stale" : { kind: "closed", lease };
  });
}

/** The latest of all, or of these scopes, newest first; what has ended is kept as long as jobs are. */
export async function listFailOpen(flow: Flow, scopes: readonly string[] | null = null): Promise<readonly FailOpen[]> {
  const pages = await Promise.all(
    (scopes ?? [null]).map((scope) =>
      flow.world.store.list(FAIL_OPENS, { index: leasesOf(scope), limit: FAIL_OPEN_MAX.listed }),
    ),
  );
  const leases = pages.flatMap(({ items }) => items.map(({ value }) => value));
  return leases.sort((a, b) => b.openedMs - a.openedMs);
}

/** The lease under which a job of the org may go without a verdict now; the one that lasts longest. */
export async function leaseFor(flow: Flow, org: string): Promise<FailOpen | null> {
  const { leasesRead } = flow.safety;
  if (!leasesRead.wasRead) await renewLeases(flow);
  else if (leasesRead.isOlderThan(RENEW_MS, flow.world.clock.now())) renewInBackground(flow);
  const inForce = flow.safety.leases.filter((lease) => covers(lease, org) && isLeaseInForce(flow, lease));
  return inForce.reduce<FailOpen | null>((last, lease) => (last && last.endsMs >= lease.endsMs ? last : lease), null);
}

/** Whether a lease is in force here and now. */
export function isLeaseInForce(flow: Flow, lease: FailOpen): boolean {
  const nowMs = flow.world.clock.now();
  if (flow.safety.over.has(lease.id)) return false;
  if (isInForce(lease, nowMs)) return true;
  // Past its end once is past its end for good; one from the future may still come into force.
  if (nowMs >= lease.endsMs) flow.safety.over.add(lease.id);
  return false;
}

/**
 * What keeps a job from being sent whose only permission is a lease; null for nothing, as with every job that has a
 * verdict. One whose lease has ended asks again. From memory: the store's guard has the last word.
 */
export function heldByLease(flow: Flow, job: Job): Held | null {
  if (!isOnLease(job)) return null;
  const leaseId = job.bypass?.leaseId ?? "";
  const { leases, leasesRead, over } = flow.safety;
  const lease = leases.find(({ id }) => id === leaseId);
  if (lease && isLeaseInForce(flow, lease)) return null;
  if (lease || over.has(leaseId) || !leasesRead.isOlderThan(RENEW_MS, flow.world.clock.now())) {
    return { kind: "waits", job: askAgain(job, given(flow)) };
  }
  // Another process has opened it a moment ago, or this one has just started.
  renewInBackground(flow);
  return { kind: "stays" };
}

type Held = { readonly kind: "stays" } | { readonly kind: "waits"; readonly job: Job };

/** The store has refused what stood on the lease of this job. */
export function noteLeaseOver(flow: Flow, job: Job): void {
  if (job.bypass) flow.safety.over.add(job.bypass.leaseId);
}

/** Another process has opened or closed one. */
export function leasesChanged(flow: Flow): void {
  flow.safety.leasesRead.forget();
  renewInBackground(flow);
}

/** The time of a lease has come: it was seen, it ends, or, after its retention, it leaves. */
export async function wakeLease(flow: Flow, found: Versioned<FailOpen>): Promise<void> {
  if (found.value.ended) {
    await apply(flow, { org: found.value.scope, puts: [put(FAIL_OPENS, found.id, found, null)] });
    return;
  }
  const nowMs = flow.world.clock.now();
  if (nowMs >= found.value.endsMs) await end(flow, found, "cordum", "expired");
  else
    await apply(flow, {
      org: found.value.scope,
      puts: [put(FAIL_OPENS, found.id, found, seeLease(found.value, nowMs))],
    });
}

/** `POLICY_CHECK_FAIL_MODE=open`: for half an hour, and loudly. One at a time, however many processes start. */
export async function openAtStart(flow: Flow): Promise<FailOpen | null> {
  const reason = "POLICY_CHECK_FAIL_MODE=open at start";
  await renewLeases(flow);
  const known = flow.safety.leases.find((lease) => lease.reason === reason && isLeaseInForce(flow, lease));
  if (known) {
    flow.world.log.write("warn", "fail_open_in_force", {
      lease: known.id,
      until: new Date(known.endsMs).toISOString(),
    });
    return known;
  }
  const opened = await openFailOpen(flow, { scope: EVERYBODY, reason, by: "config", forMs: FAIL_OPEN_MS.default });
  return opened.kind === "opened" ? opened.lease : null;
}

async function end(
  flow: Flow,
  found: Versioned<FailOpen>,
  by: string,
  what: "closed" | "expired",
): Promise<FailOpen | null | "stale"> {
  const { clock, log } = flow.world;
  const lease = endLease(found.value, by, clock.now(), flow.settings.current.retention.jobsMs);
  if (lease === null) return null;
  const puts = [put(FAIL_OPENS, found.id, found, lease), noteOf(flow, lease, by, what)];
  const committed = await apply(flow, { org: lease.scope, puts });
  if (committed.kind !== "committed") return "stale";
  log.write("warn", `fail_open_${what}`, { lease: lease.id, scope: lease.scope, by });
  flow.safety.over.add(lease.id);
  changed(flow);
  return lease;
}

function changed(flow: Flow): void {
  leasesChanged(flow);
  tellChanged(flow, FAIL_OPENS.name);
}

function renewLeases(flow: Flow): Promise<void> {
  const { clock, store } = flow.world;
  return flow.safety.leasesRead.run(clock.now(), async () => {
    const page = await store.list(FAIL_OPENS, { index: OPEN_LEASES_LIST, limit: FAIL_OPEN_MAX.listed });
    flow.safety.leases = page.items.map(({ value }) => value);
    for (const lease of flow.safety.leases) countDown(flow, lease);
  });
}

/** From the first sight of a lease on, its time passes here by itself. */
function countDown(flow: Flow, lease: FailOpen): void {
  const { clock } = flow.world;
  const { counted, over } = flow.safety;
  if (counted.has(lease.id)) return;
  counted.add(lease.id);
  const leftMs = Math.min(lease.endsMs - clock.now(), lease.endsMs - lease.openedMs, FAIL_OPEN_MS.max);
  flow.desk.later(clock, Math.max(0, leftMs), () => over.add(lease.id), true);
}

function renewInBackground(flow: Flow): void {
  const { leasesRead } = flow.safety;
  if (leasesRead.isUnderWay) return;
  const renewed = renewLeases(flow).catch((error: unknown) => {
    flow.world.log.write("warn", "leases_not_read", { error: String(error) });
  });
  flow.desk.track(renewed);
}

function objectionTo({ scope, reason, by, forMs }: FailOpenWish): string | null {
  if (scope.trim() === "") return "say for which tenant, or `*` for all";
  if (by.trim() === "") return "say who approved it";
  if (reason.trim() === "") return "say why: it stands in the audit log";
  if (reason.length > REASON_LENGTH_MAX)
    return `the reason has ${reason.length} characters; ${REASON_LENGTH_MAX} are taken`;
  if (forMs >= FAIL_OPEN_MS.min && forMs <= FAIL_OPEN_MS.max) return null;
  return `it lasts from ${FAIL_OPEN_MS.min / 1_000} seconds to ${FAIL_OPEN_MS.max / 60_000} minutes; there is no "forever"`;
}

function noteOf(flow: Flow, lease: FailOpen, who: string, what: string) {
  const { id, scope, reason, by, endsMs } = lease;
  const facts = { lease: id, scope, reason, approved_by: by, ends_at: new Date(endsMs).toISOString() };
  return audited(flow, { org: scope, kind: "fail_open", who, what, facts });
}

const REASON_LENGTH_MAX = 500;
const RENEW_MS = 1_000;
