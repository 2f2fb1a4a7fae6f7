/**
 * Kill switches. Administrators control the switch of their tenant; the switch for all tenants requires a key of tenant
 * `*`. Submitters and workers have no access, so the work that is stopped cannot resume itself (L35).
 */
import { Type } from "typebox";
import { EVERY_SCOPE, type Kill } from "../../core/model/kill-switch.ts";
import type { Engine } from "../../engine/engine.ts";
import { engageKill, listKills, releaseKill } from "../../engine/safety/index.ts";
import { isTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Gateway, type GatewayRequest, type GatewayResponse, ok, type Route } from "../route.ts";
import { KEY_NAME, withKeyNames } from "../views/key-names.ts";
import { pageOf } from "../views/page.ts";
import { requireScope } from "./fail-open.ts";

const SCOPE = Type.Optional(
  Type.String({ description: "A tenant, or `*` for all tenants. Defaults to the tenant of the caller." }),
);
export const KILL = Type.Object(
  {
    scope: Type.String({ description: "A tenant, or `*` for all tenants." }),
    reason: Type.String(),
    engaged_by: Type.String(),
    engaged_by_name: KEY_NAME,
    engaged_at: Type.String(),
  },
  { title: "KillSwitch" },
);

export const KILL_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/kill",
    summary: "List engaged kill switches, newest first",
    access: "read",
    response: pageOf(KILL),
    handle: listSwitches,
  },
  {
    method: "POST",
    path: "/api/v1/kill",
    summary: "Engage the kill switch of a tenant or of all: dispatch stops, and jobs on workers are cancelled",
    access: "admin",
    body: Type.Object({
      scope: SCOPE,
      reason: Type.String({ minLength: 1, maxLength: 500, description: "Recorded in the audit log." }),
    }),
    response: Type.Object({
      ...KILL.properties,
      already: Type.Boolean({
        description: "True if the switch was already engaged; the other fields describe that engagement.",
      }),
      cancelled: Type.Integer({ description: "Number of cancelled jobs." }),
    }),
    handle: engage,
  },
  {
    method: "POST",
    path: "/api/v1/kill/release",
    summary: "Release a kill switch: dispatch resumes",
    access: "admin",
    body: Type.Object({ scope: SCOPE }),
    response: Type.Object({
      scope: Type.String(),
      released: Type.Boolean({ description: "False if the switch was not engaged." }),
    }),
    handle: release,
  },
];

async function listSwitches({ engine }: Gateway, { org, principal }: GatewayRequest): Promise<GatewayResponse> {
  const all = await listKills(engine);
  const visible =
    principal.org === EVERY_SCOPE ? all : all.filter(({ scope }) => scope === org || scope === EVERY_SCOPE);
  return ok({ items: await killViews(engine, visible), next_cursor: null });
}

async function engage({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const { reason } = request.body as { readonly reason: string };
  const { kind, kill, cancelled } = await engageKill(engine, {
    scope: scopeOf(request),
    reason: reason.trim() || rejectEmptyReason(),
    by: request.principal.id,
  });
  const [view] = await killViews(engine, [kill]);
  return ok({ ...view, already: kind === "already", cancelled });
}

async function release({ engine }: Gateway, request: GatewayRequest): Promise<GatewayResponse> {
  const scope = scopeOf(request);
  return ok({ scope, released: (await releaseKill(engine, scope, request.principal.id)) !== null });
}

function scopeOf({ org, principal, body }: GatewayRequest): string {
  const { scope = org } = (body ?? {}) as { readonly scope?: string };
  if (scope !== EVERY_SCOPE && !isTenant(scope)) {
    throw new Problem("invalid_request", "`scope` must be a tenant or `*`");
  }
  requireScope(principal, scope, org, "a kill switch");
  return scope;
}

function rejectEmptyReason(): never {
  throw new Problem("invalid_request", "`reason` must not be empty; it is recorded in the audit log");
}

export function killViews({ world }: Engine, kills: readonly Kill[]): Promise<readonly object[]> {
  const views = kills.map(({ scope, reason, by, engagedMs }) => {
    return { scope, reason, engaged_by: by, engaged_at: new Date(engagedMs).toISOString() };
  });
  return withKeyNames(world.store, views, "engaged_by");
}
