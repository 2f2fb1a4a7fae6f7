/**
 * The signed-in caller. Nothing is requested or shown before (L57).
 *
 * 1. The key is sent once, to open a session; the browser keeps the session in a cookie that scripts cannot read.
 * 2. A response 401 ends the session on this page: everything that was shown is discarded.
 */
import { computed, signal } from "@preact/signals";
import { Client } from "../../../src/client/client.ts";
import { CordumError, errorFrom } from "../../../src/client/client-error.ts";
import type { Session as SessionView } from "../../../src/client/schema.ts";

export type Access = "read" | "submit" | "operate" | "work" | "admin" | "system";

export interface SignedIn {
  /** Name or id of the key; `local` for the start-up token of this machine. */
  readonly key: string;
  readonly role: string;
  /** `*`: may act for any tenant. */
  readonly tenant: string;
  readonly access: readonly string[];
}

export type Session =
  | { readonly kind: "opening" }
  | { readonly kind: "signed_out"; readonly error: CordumError | null }
  | { readonly kind: "unreachable"; readonly error: CordumError }
  | { readonly kind: "signed_in"; readonly who: SignedIn };

export const session = signal<Session>({ kind: "opening" });
/** The tenant chosen by a caller of all tenants; empty: all of them. */
export const chosenTenant = signal(sessionStorage.getItem("tenant") ?? "");

export const who = computed(() => (session.value.kind === "signed_in" ? session.value.who : null));
/** Actions that the role lacks are not shown. */
export const may = (access: string): boolean => who.value?.access.includes(access) === true;

const sleep = (delayMs: number, signal?: AbortSignal) =>
  new Promise<void>((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(done, delayMs);
    signal?.addEventListener("abort", aborted, { once: true });
    function done() {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }
    function aborted() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
  });

const PARTS = {
  random: () => Math.random(),
  newId: () => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join("-"),
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  sleep,
  timeout: (delayMs: number) => AbortSignal.timeout(delayMs),
  fetch: send,
};

async function send(input: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  // Pages of other origins cannot set it: see docs/decisions/0032-sessions.md.
  headers.set("x-cordum-csrf", "1");
  const response = await fetch(input, { ...init, headers, credentials: "same-origin", cache: "no-store" });
  if (response.status === 401 && session.value.kind === "signed_in") {
    const problem = (await response
      .clone()
      .json()
      .catch(() => ({}))) as { title?: string; detail?: string };
    const { title = "signed out", detail = "sign in again" } = problem;
    show(null, new CordumError({ code: "key_missing", title, detail, status: 401 }));
  }
  return response;
}

/** A client of the gateway that serves this page; another one for each chosen tenant. */
export const api = computed(
  () => new Client(PARTS, { url: location.origin, attemptsMax: 3, tenant: chosenTenant.value || undefined }),
);

/** For requests that take up to a minute and are not repeated. */
export const patientApi = computed(
  () =>
    new Client(PARTS, {
      ...{ url: location.origin, attemptsMax: 1, tenant: chosenTenant.value || undefined },
      ...{ attemptTimeoutMs: PATIENCE_MS, timeoutMs: PATIENCE_MS },
    }),
);

/** A simulation takes at most a minute, after those that wait before it. */
const PATIENCE_MS = 300_000;

export async function openSession(): Promise<void> {
  // The link that `cordum up` prints. The fragment is not sent to the server, and is removed from address and history.
  const token = /^#(cordum_[\w-]+)$/.exec(location.hash)?.[1];
  if (token !== undefined) {
    history.replaceState(null, "", location.pathname + location.search);
    return signIn(token);
  }
  await ask(() => api.peek().request("GET /session", {}));
}

export function signIn(key: string): Promise<void> {
  return ask(() => api.peek().request("POST /session", { body: { api_key: key } }));
}

export function signOut(): Promise<void> {
  return ask(() => api.peek().request("DELETE /session", {}));
}

export function chooseTenant(tenant: string): void {
  sessionStorage.setItem("tenant", tenant);
  chosenTenant.value = tenant;
}

async function ask(send: () => Promise<SessionView>): Promise<void> {
  try {
    show(await send(), null);
  } catch (thrown) {
    const error = toError(thrown);
    if (error.status !== null && error.status < 500) show(null, error);
    else session.value = { kind: "unreachable", error };
  }
}

function show(view: SessionView | null, error: CordumError | null): void {
  if (view?.authenticated !== true) {
    session.value = { kind: "signed_out", error };
    return;
  }
  const { key_id, key_name, role, tenant, permissions } = view;
  const key = key_name ?? key_id ?? "";
  if (tenant !== "*") chosenTenant.value = "";
  session.value = { kind: "signed_in", who: { key, role: role ?? "", tenant: tenant ?? "", access: permissions } };
}

/** A request that the gateway itself named, for example to resolve a finding. */
export async function sendPath(method: string, path: string, body: unknown): Promise<void> {
  const tenant = chosenTenant.value === "" ? {} : { "x-tenant-id": chosenTenant.value };
  const headers = { "content-type": "application/json", ...tenant };
  const response = await send(path, { method, headers, body: JSON.stringify(body ?? {}) });
  if (!response.ok) throw errorFrom(response, await response.json().catch(() => null));
}

/** Everything thrown, as an error with title and detail. */
export function toError(error: unknown): CordumError {
  if (error instanceof CordumError) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new CordumError({ code: "unexpected", title: "unexpected error", detail, cause: error });
}
