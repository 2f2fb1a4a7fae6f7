/**
 * Protection of cookie-authenticated requests against other web pages.
 *
 * 1. A browser sends the cookie with requests of every page of the same site, which includes other ports of this host:
 *    `SameSite=Strict` alone does not protect a gateway on loopback.
 * 2. Requests that can change something need a proof of their origin and `X-Cordum-CSRF`: another origin cannot set the
 *    header without a preflight, which the gateway does not answer.
 */
import { Problem } from "../problem.ts";
import type { GatewayRequest } from "../route.ts";

export interface Originated {
  readonly method: string;
  readonly headers: GatewayRequest["headers"];
}

/** Throws if the request carries a cookie and may come from another origin. */
export function guardOrigin({ method, headers }: Originated): void {
  const isSame = isSameOrigin(headers);
  if (isSame === false) throw new Problem("cross_origin", FOREIGN);
  if (SAFE.has(method)) return;
  if (isSame === null) throw new Problem("cross_origin", `the request has no \`Origin\`; ${USE_KEY}`);
  if (headers[CSRF_HEADER] === undefined) {
    throw new Problem("cross_origin", `send \`X-Cordum-CSRF: 1\` with requests that use a session; ${USE_KEY}`);
  }
}

/** Throws if another web page sent the request. Clients that are no browsers send neither header. */
export function guardForeignPage(headers: GatewayRequest["headers"]): void {
  if (isSameOrigin(headers) === false) throw new Problem("cross_origin", FOREIGN);
}

/** Null if the request does not say. `Sec-Fetch-Site` is set by browsers only; `none` is an address that a person entered. */
function isSameOrigin({ "sec-fetch-site": site, origin, host }: GatewayRequest["headers"]): boolean | null {
  if (site !== undefined && site !== "none") return site === "same-origin";
  if (origin !== undefined) return /^https?:\/\/(.+)$/.exec(String(origin))?.[1] === host;
  return null;
}

const SAFE: ReadonlySet<string> = new Set(["GET", "HEAD"]);
const CSRF_HEADER = "x-cordum-csrf";
const USE_KEY = "or authenticate with `X-API-Key`";
const FOREIGN = "the session of a browser is accepted from pages of this gateway only; send an API key instead";
