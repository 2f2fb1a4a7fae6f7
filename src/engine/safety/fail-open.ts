import {
  ALL_TENANTS,
  endGrant,
  FAIL_OPEN_MAX,
  FAIL_OPEN_MS,
  FAIL_OPENS,
  type FailOpenGrant,
  grantsOf,
  observeGrant,
  openCountersOf,
  openGrant,
} from "../../core/model/fail-open.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import { broadcastChange } from "../change-broadcast.ts";
import { retryOnConflict } from "../commit.ts";
import type { Needs } from "../engine.ts";

/**
 * Opens, closes and lists fail-open leases (`core/model/fail-open.ts`); `fail-open-grants.ts` is the cache that
 * dispatch uses.
 */
export interface FailOpenRequest {
  readonly scope: string;
  readonly reason: string;
  /** The approver. */
  readonly by: string;
  readonly forMs: number;
}

export type FailOpenOutcome =
  | { readonly kind: "opened"; readonly lease: FailOpenGrant }
  | { readonly kind: "bad"; readonly why: string }
  | { readonly kind: "too_many"; readonly limit: number };

export async function openFailOpen(
  engine: Needs<"world" | "commit" | "audit" | "safety">,
  request: FailOpenRequest,
): Promise<FailOpenOutcome> {
  const why = objectionTo(request);
  if (why !== null) return { kind: "bad", why };
  const { clock, log, random } = engine.world;
  const { scope, by, forMs } = request;
  const reason = request.reason.trim();
  const lease = openGrant({ id: random.id(), scope, reason, by }, forMs, clock.now());
  const committed = await engine.commit({
    org: scope,
    puts: [put(FAIL_OPENS, lease.id, null, lease), noteOf(engine, lease, by, "opened")],
    guards: openCountersOf(scope).map((bound) => ({ kind: "counter", ...bound })),
  });
  if (committed.kind === "refused") {
    return { kind: "too_many", limit: committed.guard.kind === "counter" ? committed.guard.max : 0 };
  }
  if (committed.kind === "stale") throw new Error(`lease \`${lease.id}\` already exists`);
  const until = new Date(lease.endsMs).toISOString();
  log.write("warn", "fail_open_opened", { lease: lease.id, scope, reason, by, until });
  changed(engine);
  return { kind: "opened", lease };
}

export type FailOpenCloseOutcome =
  | { readonly kind: "closed"; readonly lease: FailOpenGrant }
  | { readonly kind: "ended"; readonly lease: FailOpenGrant }
  | { readonly kind: "not_found" };

export function closeFailOpen(
  engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">,
  id: string,
  by: string,
): Promise<FailOpenCloseOutcome> {
  return retryOnConflict(`fail-open lease \`${id}\``, async () => {
    const found = await engine.world.store.load(FAIL_OPENS, id);
    if (!found) return { kind: "not_found" };
    const lease = await end(engine, found, by, "closed");
    if (lease === null) return { kind: "ended", lease: found.value };
    return lease === "stale" ? "stale" : { kind: "closed", lease };
  });
}

/** Newest first, of all scopes or the given ones. Ended leases are kept as long as jobs. */
export async function listFailOpen(
  engine: Needs<"world">,
  scopes: readonly string[] | null = null,
): Promise<readonly FailOpenGrant[]> {
  const pages = await Promise.all(
    (scopes ?? [null]).map((scope) =>
      engine.world.store.list(FAIL_OPENS, { index: grantsOf(scope), limit: FAIL_OPEN_MAX.listed }),
    ),
  );
  const leases = pages.flatMap(({ items }) => items.map(({ value }) => value));
  return leases.sort((a, b) => b.openedMs - a.openedMs);
}

/** Timer handler of leases: records progress of time, ends the lease, or removes it after its retention. */
export async function onFailOpenDue(
  engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">,
  found: Versioned<FailOpenGrant>,
): Promise<void> {
  if (found.value.ended) {
    await engine.commit({ org: found.value.scope, puts: [put(FAIL_OPENS, found.id, found, null)] });
    return;
  }
  const nowMs = engine.world.clock.now();
  if (nowMs >= found.value.endsMs) await end(engine, found, "cordum", "expired");
  else
    await engine.commit({
      org: found.value.scope,
      puts: [put(FAIL_OPENS, found.id, found, observeGrant(found.value, nowMs))],
    });
}

/** `POLICY_CHECK_FAIL_MODE=open` opens one lease for 30 minutes at start, however many processes start. */
export async function openAtStart(
  engine: Needs<"world" | "commit" | "audit" | "safety">,
): Promise<FailOpenGrant | null> {
  const reason = "POLICY_CHECK_FAIL_MODE=open at start";
  await engine.safety.grants.load();
  const known = engine.safety.grants.open.find(
    (lease) => lease.reason === reason && engine.safety.grants.isInForce(lease),
  );
  if (known) {
    engine.world.log.write("warn", "fail_open_reused", {
      lease: known.id,
      until: new Date(known.endsMs).toISOString(),
    });
    return known;
  }
  const opened = await openFailOpen(engine, { scope: ALL_TENANTS, reason, by: "config", forMs: FAIL_OPEN_MS.default });
  return opened.kind === "opened" ? opened.lease : null;
}

async function end(
  engine: Needs<"world" | "settings" | "commit" | "audit" | "safety">,
  found: Versioned<FailOpenGrant>,
  by: string,
  what: "closed" | "expired",
): Promise<FailOpenGrant | null | "stale"> {
  const { clock, log } = engine.world;
  const lease = endGrant(found.value, by, clock.now(), engine.settings.current.retention.jobsMs);
  if (lease === null) return null;
  const puts = [put(FAIL_OPENS, found.id, found, lease), noteOf(engine, lease, by, what)];
  const committed = await engine.commit({ org: lease.scope, puts });
  if (committed.kind !== "committed") return "stale";
  log.write("warn", `fail_open_${what}`, { lease: lease.id, scope: lease.scope, by });
  engine.safety.grants.end(lease);
  changed(engine);
  return lease;
}

function changed(engine: Needs<"world" | "safety">): void {
  engine.safety.grants.refresh();
  broadcastChange(engine, FAIL_OPENS.name);
}

function objectionTo({ scope, reason, by, forMs }: FailOpenRequest): string | null {
  if (scope.trim() === "") return "scope is required: a tenant, or `*` for all";
  if (by.trim() === "") return "approver is required";
  if (reason.trim() === "") return "reason is required; it is recorded in the audit log";
  if (reason.length > REASON_LENGTH_MAX)
    return `the reason has ${reason.length} characters; the limit is ${REASON_LENGTH_MAX}`;
  if (forMs >= FAIL_OPEN_MS.min && forMs <= FAIL_OPEN_MS.max) return null;
  return `the duration must be between ${FAIL_OPEN_MS.min / 1_000} seconds and ${FAIL_OPEN_MS.max / 60_000} minutes`;
}

function noteOf(engine: Needs<"audit">, lease: FailOpenGrant, who: string, what: string) {
  const { id, scope, reason, by, endsMs } = lease;
  const facts = { lease: id, scope, reason, approved_by: by, ends_at: new Date(endsMs).toISOString() };
  return auditPut(engine, { org: scope, kind: "fail_open", who, what, facts });
}

const REASON_LENGTH_MAX = 500;
