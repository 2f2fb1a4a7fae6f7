/**
 * Sign-in of a browser: an API key, or the start-up token, is exchanged for a cookie that scripts cannot read.
 *
 * 1. The routes are open: `GET` also answers callers that are not signed in.
 * 2. Signing in from a page of another origin is rejected: it would replace the session with that of another key.
 */
import { Type } from "typebox";
import { readKeyText, type Session, STARTUP_ID, sessionEnd } from "../../../core/model/api-key.ts";
import { ERRORS } from "../../../core/model/errors.ts";
import { permissionsOf } from "../../auth/access.ts";
import { guardForeignPage, guardOrigin } from "../../auth/same-origin.ts";
import { sessionCookie, sessionTokenIn } from "../../auth/sessions.ts";
import { Problem } from "../../problem.ts";
import {
  type Gateway,
  type GatewayRequest,
  type GatewayResponse,
  ok,
  type Principal,
  type Route,
} from "../../route.ts";
import { orNull, TEXT_OR_NULL } from "../../views/schemas.ts";

const SESSION = Type.Object(
  {
    authenticated: Type.Boolean(),
    needs_key: Type.Boolean({ description: "False while no API key exists: the start-up token signs in." }),
    key_id: TEXT_OR_NULL,
    key_name: TEXT_OR_NULL,
    role: TEXT_OR_NULL,
    tenant: orNull(Type.String({ description: "The tenant of the key; `*` may act for any tenant." })),
    person: TEXT_OR_NULL,
    permissions: Type.Array(Type.String(), {
      description: "The accesses of the role: `read`, `submit`, `operate`, `work`, `admin`, `system` (`x-access`).",
    }),
    ends_at: orNull(
      Type.String({ description: "The end of the session without another request; null for a request with a key." }),
    ),
  },
  { title: "Session" },
);

export const SESSION_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: "/api/v1/session",
    summary: "Get the caller and its permissions; `authenticated` is false without a valid key or session",
    access: "open",
    response: SESSION,
    handle: getSession,
  },
  {
    method: "POST",
    path: "/api/v1/session",
    summary: "Sign a browser in: exchange an API key for a session cookie (`HttpOnly`, `SameSite=Strict`)",
    access: "open",
    body: Type.Object({ api_key: Type.String({ minLength: 1, maxLength: 300 }) }, { title: "SignInRequest" }),
    response: SESSION,
    handle: signIn,
  },
  {
    method: "DELETE",
    path: "/api/v1/session",
    summary: "Sign out: end the session of the cookie, in every process within a second",
    access: "open",
    response: SESSION,
    handle: signOut,
  },
];

async function getSession(gateway: Gateway, { headers, ip }: GatewayRequest): Promise<GatewayResponse> {
  try {
    const { principal, session } = await gateway.auth.check({ headers, ip, method: "GET" });
    return ok(await sessionView(gateway, principal, session));
  } catch (error) {
    if (!(error instanceof Problem) || ERRORS[error.code].status !== 401) throw error;
    return ok(await sessionView(gateway, null, null));
  }
}

async function signIn(gateway: Gateway, { headers, ip, body }: GatewayRequest): Promise<GatewayResponse> {
  guardForeignPage(headers);
  const { api_key } = body as { readonly api_key: string };
  const text = api_key.trim();
  // The key of the body only: no other credential of the request.
  const own = { ...headers, authorization: undefined, cookie: undefined, "x-api-key": text };
  const principal = await gateway.auth.authenticate({ headers: own, ip, method: "POST" });
  const isStartup = readKeyText(text)?.id === STARTUP_ID;
  const { token, session } = await gateway.sessions.open(principal, isStartup ? text : null);
  const before = sessionTokenIn(headers);
  if (before !== undefined) await gateway.sessions.end(before, principal.id);
  const cookie = sessionCookie(token, session.endsMs - session.createdMs, headers);
  return { ...ok(await sessionView(gateway, principal, session)), headers: { "set-cookie": cookie } };
}

async function signOut(gateway: Gateway, { headers }: GatewayRequest): Promise<GatewayResponse> {
  const token = sessionTokenIn(headers);
  if (token !== undefined) {
    guardOrigin({ method: "DELETE", headers });
    const session = await gateway.sessions.find(token);
    await gateway.sessions.end(token, session?.keyId ?? "unknown");
  }
  const cookie = sessionCookie("", 0, headers);
  return { ...ok(await sessionView(gateway, null, null)), headers: { "set-cookie": cookie } };
}

async function sessionView(gateway: Gateway, principal: Principal | null, session: Session | null): Promise<object> {
  return {
    authenticated: principal !== null,
    needs_key: await gateway.auth.anyKeyExists(),
    key_id: principal?.id ?? null,
    key_name: principal?.caller.name ?? null,
    role: principal?.role ?? null,
    tenant: principal?.org ?? null,
    person: principal?.caller.person ?? null,
    permissions: principal === null ? [] : permissionsOf(principal),
    ends_at: session === null ? null : new Date(sessionEnd(session)).toISOString(),
  };
}
