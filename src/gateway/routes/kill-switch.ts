/**
 * The kill switch over HTTP: engaged, released, and who has engaged it.
 *
 * 1. The administrator of a tenant has that tenant's; the one for all tenants takes a key of tenant `*`. Keys that submit
 *    or do the work have none: what is to be stopped cannot start itself again (L35).
 * 2. A tenant sees its own and the one for everybody.
 */
import { Type } from "typebox";
import { EVERY_SCOPE, type Kill } from "../../core/model/kill-switch.ts";
import { engageKill, listKills, releaseKill } from "../../engine/safety/index.ts";
import { isTenant } from "../auth/access.ts";
import { Problem } from "../problem.ts";
import { type Answer, type Gateway, type GatewayRequest, ok, type Route } from "../route.ts";
import { pageOf } from "../views/page.ts";
import { refuseOthers } from "./fail-open.ts";

const SCOPE = Type.Optional(Type.String({ description: "The tenant, or `*`; the caller's own when left out." }));
const KILL = Type.Object({
  scope: Type.String({ description: "A tenant, or `*` for all of them." }),
  reason: Type.String(),
  engaged_by: Type.String(),
  engaged_at: Type.String(),
});

export const KILL_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/kill",
    summary: "Kill switches that are engaged, newest first",
    access: "read",
    answer: pageOf(KILL),
    handle: listSwitches,
  },
  {
    method: "POST",
    path: "/api/v1/kill",
    summary: "Stops the work of a tenant, or of all: nothing goes out, and what is with workers is cancelled",
    access: "admin",
    body: Type.Object({
      scope: SCOPE,
      reason: Type.String({ minLength: 1, maxLength: 500, description: "Why: it stands in the audit log." }),
    }),
    answer: Type.Object({
      ...KILL.properties,
      already: Type.Boolean({ description: "It was engaged before, by whom it names." }),
      cancelled: Type.Integer({ description: "Jobs that were with workers, and are cancelled." }),
    }),
    handle: engage,
  },
  {
    method: "POST",
    path: "/api/v1/kill/release",
    summary: "Lets work go out again",
    access: "admin",
    body: Type.Object({ scope: SCOPE }),
    answer: Type.Object({
      scope: Type.String(),
      released: Type.Boolean({ description: "False when it was not engaged." }),
    }),
    handle: release,
  },
];

async function listSwitches({ engine }: Gateway, { org, principal }: GatewayRequest): Promise<Answer> {
  const all = await listKills(engine);
  const seen = principal.org === EVERY_SCOPE ? all : all.filter(({ scope }) => scope === org || scope === EVERY_SCOPE);
  return ok({ items: seen.map(killView), next_cursor: null });
}

async function engage({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const { reason } = request.body as { readonly reason: string };
  const { kind, kill, cancelled } = await engageKill(engine, {
    scope: scopeOf(request),
    reason: reason.trim() || refuseEmpty(),
    by: request.principal.id,
  });
  return ok({ ...killView(kill), already: kind === "already", cancelled });
}

async function release({ engine }: Gateway, request: GatewayRequest): Promise<Answer> {
  const scope = scopeOf(request);
  return ok({ scope, released: (await releaseKill(engine, scope, request.principal.id)) !== null });
}

function scopeOf({ org, principal, body }: GatewayRequest): string {
  const { scope = org } = (body ?? {}) as { readonly scope?: string };
  if (scope !== EVERY_SCOPE && !isTenant(scope)) {
    throw new Problem("invalid_request", "`scope` must be a tenant or `*`");
  }
  refuseOthers(principal, scope, org, "a kill switch");
  return scope;
}

function refuseEmpty(): never {
  throw new Problem("invalid_request", "`reason` must say why: it stands in the audit log");
}

export function killView({ scope, reason, by, engagedMs }: Kill): object {
  return { scope, reason, engaged_by: by, engaged_at: new Date(engagedMs).toISOString() };
}
