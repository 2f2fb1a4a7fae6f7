/**
 * Fail-open leases, and the review of jobs that bypassed the safety check under one.
 *
 * 1. Administrators open and close leases of their tenant; a lease for all tenants requires a key of tenant `*`.
 * 2. A tenant sees its own leases and those for all tenants. Records of other tenants are reported as not found.
 */
import { Type } from "typebox";
import { ALL_TENANTS, FAIL_OPEN_MS, FAIL_OPENS, type FailOpenGrant } from "../../core/model/fail-open.ts";
import { bypassedOf, JOBS, type Job, unreviewedOf } from "../../core/model/job.ts";
import { clientJobId } from "../../core/model/job-id.ts";
import { closeFailOpen, listFailOpen, openFailOpen, reviewBypass } from "../../engine/safety/index.ts";
import { isTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Principal, type Route } from "../route.ts";
import { KEY_NAME, withKeyName, withKeyNames } from "../views/key-names.ts";
import { listPageWith, pageOf, pageQuery, queryText } from "../views/page.ts";

const MINUTE_MS = 60_000;
const TEXT_OR_NULL = Type.Union([Type.String(), Type.Null()]);

const LEASE = Type.Object(
  {
    id: Type.String(),
    scope: Type.String({ description: "A tenant, or `*` for all tenants." }),
    state: Type.String({ description: "`in_force`, `not_in_force` (by the clock of this process) or `ended`." }),
    reason: Type.String(),
    approved_by: Type.String(),
    approved_by_name: KEY_NAME,
    opened_at: Type.String(),
    ends_at: Type.String(),
    ended_at: TEXT_OR_NULL,
    ended_by: TEXT_OR_NULL,
    ended_by_name: KEY_NAME,
  },
  { title: "FailOpenLease" },
);

const NEW_LEASE = Type.Object(
  {
    scope: Type.Optional(
      Type.String({ description: "A tenant, or `*` for all tenants. Defaults to the tenant of the caller." }),
    ),
    reason: Type.String({ minLength: 1, maxLength: 500, description: "Recorded in the audit log." }),
    minutes: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: FAIL_OPEN_MS.max / MINUTE_MS,
        default: FAIL_OPEN_MS.default / MINUTE_MS,
        description: "Duration; the lease then ends by itself.",
      }),
    ),
  },
  { title: "OpenFailOpenRequest" },
);

const BYPASSED = Type.Object(
  {
    job_id: Type.String(),
    topic: Type.String(),
    state: Type.String(),
    lease_id: Type.String(),
    reason: Type.String(),
    bypassed_at: Type.String(),
    reviewed_by: TEXT_OR_NULL,
    reviewed_by_name: KEY_NAME,
    reviewed_at: TEXT_OR_NULL,
    note: TEXT_OR_NULL,
    verdict: Type.Union([
      Type.Object({
        decision: Type.String(),
        rule_id: TEXT_OR_NULL,
        reason: Type.String(),
        snapshot: Type.String(),
      }),
      Type.Null(),
    ]),
  },
  { title: "BypassedJob" },
);

export const FAIL_OPEN_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/failopen",
    summary:
      "List fail-open leases, newest first; a lease lets jobs bypass the safety check while the kernel is unavailable",
    access: "read",
    response: pageOf(LEASE),
    handle: listLeases,
  },
  {
    method: "POST",
    path: "/api/v1/failopen",
    summary: "Open a fail-open lease of at most 4 hours",
    access: "admin",
    body: NEW_LEASE,
    response: LEASE,
    handle: openLease,
  },
  {
    method: "POST",
    path: "/api/v1/failopen/:id/close",
    summary: "Close a fail-open lease; no further job bypasses the check under it",
    access: "admin",
    response: LEASE,
    handle: closeLease,
  },
  {
    method: "GET",
    path: "/api/v1/failopen/bypassed",
    summary: "List jobs that bypassed the safety check and await review; with `reviewed=true`, the reviewed ones",
    access: "read",
    query: pageQuery({ reviewed: Type.Optional(Type.Union([Type.Literal("true"), Type.Literal("false")])) }),
    response: pageOf(BYPASSED),
    handle: listBypassed,
  },
  {
    method: "POST",
    path: "/api/v1/failopen/bypassed/:id/review",
    summary: "Review a job that bypassed the safety check: records the decision of the current policy",
    access: "operate",
    body: Type.Object({ note: Type.Optional(Type.String({ minLength: 1, maxLength: 500 })) }),
    response: BYPASSED,
    handle: review,
  },
];

async function listLeases({ engine }: Gateway, { org, principal }: GatewayRequest): Promise<GatewayResponse> {
  const scopes = principal.org === ALL_TENANTS ? null : [org, ALL_TENANTS];
  const leases = await listFailOpen(engine, scopes);
  const views = leases.map((lease) => leaseView(lease, engine.safety.grants.isInForce(lease)));
  return ok({ items: await withKeyNames(engine.world.store, views, ...LEASE_ACTORS), next_cursor: null });
}

async function openLease({ engine }: Gateway, { org, principal, body }: GatewayRequest): Promise<GatewayResponse> {
  const options = body as { readonly scope?: string; readonly reason: string; readonly minutes?: number };
  const scope = options.scope ?? org;
  if (scope !== ALL_TENANTS && !isTenant(scope)) {
    throw new Problem("invalid_request", "`scope` must be a tenant or `*`");
  }
  requireScope(principal, scope, org, "a lease");
  const forMs = (options.minutes ?? FAIL_OPEN_MS.default / MINUTE_MS) * MINUTE_MS;
  const opened = await openFailOpen(engine, { scope, reason: options.reason, by: principal.id, forMs });
  switch (opened.kind) {
    case "opened":
      return ok(await withKeyName(engine.world.store, leaseView(opened.lease, true), ...LEASE_ACTORS));
    case "bad":
      throw new Problem("invalid_request", opened.why);
    case "too_many":
      throw new Problem(
        "too_many_leases",
        `${opened.limit} are open; close one with \`POST /api/v1/failopen/{id}/close\``,
      );
    default:
      return opened satisfies never;
  }
}

async function closeLease({ engine }: Gateway, { org, principal, params }: GatewayRequest): Promise<GatewayResponse> {
  const id = params.id ?? "";
  const found = await engine.world.store.load(FAIL_OPENS, id);
  const isVisible = found && (principal.org === ALL_TENANTS || [org, ALL_TENANTS].includes(found.value.scope));
  if (!isVisible) throw notFound(id);
  requireScope(principal, found.value.scope, org, "a lease");
  const closed = await closeFailOpen(engine, id, principal.id);
  switch (closed.kind) {
    case "closed":
    // Closing is idempotent.
    case "ended":
      return ok(await withKeyName(engine.world.store, leaseView(closed.lease, false), ...LEASE_ACTORS));
    case "not_found":
      throw notFound(id);
    default:
      return closed satisfies never;
  }
}

async function listBypassed({ engine }: Gateway, { org, query }: GatewayRequest): Promise<GatewayResponse> {
  const index = queryText(query, "reviewed") === "true" ? bypassedOf(org) : unreviewedOf(org);
  const { store } = engine.world;
  return listPageWith(store, JOBS, index, query, (items) =>
    withKeyNames(
      store,
      items.map(({ value }) => bypassView(value)),
      "reviewed_by",
    ),
  );
}

async function review({ engine }: Gateway, { org, principal, params, body }: GatewayRequest): Promise<GatewayResponse> {
  const jobId = params.id ?? "";
  const { note } = (body ?? {}) as { readonly note?: string };
  const options = { org, jobId, by: principal.id, ...(note === undefined ? {} : { note }) };
  const reviewed = await reviewBypass(engine, options);
  switch (reviewed.kind) {
    case "reviewed":
    case "reviewed_already":
      return ok(await withKeyName(engine.world.store, bypassView(reviewed.job), "reviewed_by"));
    case "not_found":
      throw new Problem(
        "job_not_found",
        `no job \`${jobId}\` of tenant \`${org}\`; \`GET /api/v1/failopen/bypassed\` lists the jobs to review`,
      );
    case "not_bypassed":
      throw new Problem(
        "not_bypassed",
        `job \`${jobId}\` was checked; \`GET /api/v1/jobs/${jobId}\` shows the decision`,
      );
    case "unavailable":
      throw new Problem("safety_unavailable", reviewed.reason);
    default:
      return reviewed satisfies never;
  }
}

/** Switches for one tenant belong to its administrators; switches for all tenants require a key of `*`. */
export function requireScope(principal: Principal, scope: string, org: string, what: string): void {
  if (principal.org === ALL_TENANTS || (scope !== ALL_TENANTS && scope === org)) return;
  const detail =
    scope === ALL_TENANTS
      ? `${what} for all tenants requires a key of tenant \`*\``
      : `this key is limited to tenant \`${org}\`; omit \`scope\``;
  throw new Problem("tenant_forbidden", detail);
}

function notFound(id: string): Problem {
  return new Problem("lease_not_found", `no fail-open lease \`${id}\`; \`GET /api/v1/failopen\` lists them`);
}

const LEASE_ACTORS = ["approved_by", "ended_by"] as const;

function leaseView(lease: FailOpenGrant, inForce: boolean): object {
  return {
    id: lease.id,
    scope: lease.scope,
    state: lease.ended ? "ended" : inForce ? "in_force" : "not_in_force",
    reason: lease.reason,
    approved_by: lease.by,
    opened_at: new Date(lease.openedMs).toISOString(),
    ends_at: new Date(lease.endsMs).toISOString(),
    ended_at: lease.ended ? new Date(lease.ended.atMs).toISOString() : null,
    ended_by: lease.ended?.by ?? null,
  };
}

function bypassView({ id, org, topic, state, bypass }: Job): object {
  const { verdict } = bypass ?? {};
  return {
    job_id: clientJobId(org, id),
    topic,
    state,
    lease_id: bypass?.leaseId ?? "",
    reason: bypass?.reason ?? "",
    bypassed_at: new Date(bypass?.atMs ?? 0).toISOString(),
    reviewed_by: bypass?.reviewedBy ?? null,
    reviewed_at: bypass?.reviewedMs === undefined ? null : new Date(bypass.reviewedMs).toISOString(),
    note: bypass?.note ?? null,
    verdict: verdict
      ? { decision: verdict.effect, rule_id: verdict.ruleId, reason: verdict.reason, snapshot: verdict.snapshot }
      : null,
  };
}
