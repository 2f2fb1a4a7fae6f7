/**
 * Fail-open leases over HTTP: opened, listed and closed; and the jobs that went out under one, to be looked at again.
 *
 * 1. The administrator of a tenant opens and closes leases of that tenant; one for all tenants needs a key of tenant `*`.
 * 2. A tenant sees its own leases and those for everybody. Somebody else's lease, or job, is not there.
 */
import { Type } from "typebox";
import { ALL_TENANTS, FAIL_OPEN_MS, FAIL_OPENS, type FailOpenGrant } from "../../core/model/fail-open.ts";
import { bypassedOf, JOBS, type Job, unreviewedOf } from "../../core/model/job.ts";
import { closeFailOpen, listFailOpen, openFailOpen, reviewBypass } from "../../engine/safety/index.ts";
import { isTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Principal, type Route } from "../route.ts";
import { listPage, pageOf, pageQuery, queryText } from "../views/page.ts";

const MINUTE_MS = 60_000;
const TEXT_OR_NULL = Type.Union([Type.String(), Type.Null()]);

const LEASE = Type.Object({
  id: Type.String(),
  scope: Type.String({ description: "A tenant, or `*` for all of them." }),
  state: Type.String({ description: "`in_force`, `not_in_force` (by this process's clock) or `ended`" }),
  reason: Type.String(),
  approved_by: Type.String(),
  opened_at: Type.String(),
  ends_at: Type.String(),
  ended_at: TEXT_OR_NULL,
  ended_by: TEXT_OR_NULL,
});

const NEW_LEASE = Type.Object({
  scope: Type.Optional(Type.String({ description: "The tenant, or `*`; the caller's own when left out." })),
  reason: Type.String({ minLength: 1, maxLength: 500, description: "Why: it stands in the audit log." }),
  minutes: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: FAIL_OPEN_MS.max / MINUTE_MS,
      default: FAIL_OPEN_MS.default / MINUTE_MS,
      description: "How long; then it ends by itself.",
    }),
  ),
});

const BYPASSED = Type.Object({
  job_id: Type.String(),
  topic: Type.String(),
  state: Type.String(),
  lease_id: Type.String(),
  reason: Type.String(),
  bypassed_at: Type.String(),
  reviewed_by: TEXT_OR_NULL,
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
});

export const FAIL_OPEN_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/failopen",
    summary: "Fail-open leases, newest first: what lets jobs go while the safety kernel does not answer",
    access: "read",
    answer: pageOf(LEASE),
    handle: listLeases,
  },
  {
    method: "POST",
    path: "/api/v1/failopen",
    summary: "Opens a fail-open lease; it ends by itself, after 4 hours at the latest",
    access: "admin",
    body: NEW_LEASE,
    answer: LEASE,
    handle: openLease,
  },
  {
    method: "POST",
    path: "/api/v1/failopen/:id/close",
    summary: "Closes a fail-open lease: nothing more goes out under it",
    access: "admin",
    answer: LEASE,
    handle: closeLease,
  },
  {
    method: "GET",
    path: "/api/v1/failopen/bypassed",
    summary: "Jobs that went out without a verdict and were not looked at since; with `reviewed=true` the others",
    access: "read",
    query: pageQuery({ reviewed: Type.Optional(Type.Union([Type.Literal("true"), Type.Literal("false")])) }),
    answer: pageOf(BYPASSED),
    handle: listBypassed,
  },
  {
    method: "POST",
    path: "/api/v1/failopen/bypassed/:id/review",
    summary: "Writes down what the policy says now to a job that went out without a verdict",
    access: "operate",
    body: Type.Object({ note: Type.Optional(Type.String({ minLength: 1, maxLength: 500 })) }),
    answer: BYPASSED,
    handle: review,
  },
];

async function listLeases({ engine }: Gateway, { org, principal }: GatewayRequest): Promise<Answer> {
  const scopes = principal.org === ALL_TENANTS ? null : [org, ALL_TENANTS];
  const leases = await listFailOpen(engine, scopes);
  return ok({
    items: leases.map((lease) => leaseView(lease, engine.safety.grants.isInForce(lease))),
    next_cursor: null,
  });
}

async function openLease({ engine }: Gateway, { org, principal, body }: GatewayRequest): Promise<Answer> {
  const wanted = body as { readonly scope?: string; readonly reason: string; readonly minutes?: number };
  const scope = wanted.scope ?? org;
  if (scope !== ALL_TENANTS && !isTenant(scope)) {
    throw new Problem("invalid_request", "`scope` must be a tenant or `*`");
  }
  refuseOthers(principal, scope, org, "a lease");
  const forMs = (wanted.minutes ?? FAIL_OPEN_MS.default / MINUTE_MS) * MINUTE_MS;
  const opened = await openFailOpen(engine, { scope, reason: wanted.reason, by: principal.id, forMs });
  switch (opened.kind) {
    case "opened":
      return ok(leaseView(opened.lease, true));
    case "bad":
      throw new Problem("invalid_request", opened.why);
    case "too_many":
      throw new Problem("too_many_leases", `${opened.limit} are open; close those that nobody needs any more`);
    default:
      return opened satisfies never;
  }
}

async function closeLease({ engine }: Gateway, { org, principal, params }: GatewayRequest): Promise<Answer> {
  const id = params.id ?? "";
  const found = await engine.world.store.load(FAIL_OPENS, id);
  const isVisible = found && (principal.org === ALL_TENANTS || [org, ALL_TENANTS].includes(found.value.scope));
  if (!isVisible) throw notFound(id);
  refuseOthers(principal, found.value.scope, org, "a lease");
  const closed = await closeFailOpen(engine, id, principal.id);
  switch (closed.kind) {
    case "closed":
    // Twice is as good as once: what was wanted is so.
    case "ended":
      return ok(leaseView(closed.lease, false));
    case "not_found":
      throw notFound(id);
    default:
      return closed satisfies never;
  }
}

async function listBypassed({ engine }: Gateway, { org, query }: GatewayRequest): Promise<Answer> {
  const index = queryText(query, "reviewed") === "true" ? bypassedOf(org) : unreviewedOf(org);
  return listPage(engine.world.store, JOBS, index, query, (item) => bypassView(item.value));
}

async function review({ engine }: Gateway, { org, principal, params, body }: GatewayRequest): Promise<Answer> {
  const jobId = params.id ?? "";
  const { note } = (body ?? {}) as { readonly note?: string };
  const options = { org, jobId, by: principal.id, ...(note === undefined ? {} : { note }) };
  const reviewed = await reviewBypass(engine, options);
  switch (reviewed.kind) {
    case "reviewed":
    case "reviewed_already":
      return ok(bypassView(reviewed.job));
    case "not_found":
      throw new Problem("job_not_found", `no job \`${jobId}\` of tenant \`${org}\``);
    case "not_bypassed":
      throw new Problem("not_bypassed", `job \`${jobId}\` has a verdict: \`GET /api/v1/jobs/${jobId}\` shows it`);
    case "unavailable":
      throw new Problem("safety_unavailable", reviewed.reason);
    default:
      return reviewed satisfies never;
  }
}

/** A lever of one tenant is its administrator's; one of all of them is not. */
export function refuseOthers(principal: Principal, scope: string, org: string, lever: string): void {
  if (principal.org === ALL_TENANTS || (scope !== ALL_TENANTS && scope === org)) return;
  const detail =
    scope === ALL_TENANTS ? `${lever} for all tenants needs a key of tenant \`*\`` : `\`${scope}\` is not yours`;
  throw new Problem("tenant_forbidden", detail);
}

function notFound(id: string): Problem {
  return new Problem("lease_not_found", `no fail-open lease \`${id}\`; \`GET /api/v1/failopen\` lists them`);
}

export function leaseView(lease: FailOpenGrant, inForce: boolean): object {
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

function bypassView({ id, topic, state, bypass }: Job): object {
  const { verdict } = bypass ?? {};
  return {
    job_id: id,
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
