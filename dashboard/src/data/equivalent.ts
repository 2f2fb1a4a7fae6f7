/** The curl command of an operation. CLI commands are named by the action itself. */
import type { OperationName } from "../../../src/client/operations.ts";

export interface Request {
  readonly name: OperationName;
  readonly path?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
}

export function asCurl({ name, path = {}, query = {}, body }: Request, url: string, tenant: string): string {
  const [method = "GET", template = ""] = name.split(" ");
  const filled = template.replace(/\{(\w+)\}/g, (_, field: string) => encodeURIComponent(path[field] ?? ""));
  const search = new URLSearchParams();
  for (const [field, value] of Object.entries(query)) if (value !== undefined) search.set(field, String(value));
  const full = `/api/v1${filled}${search.size === 0 ? "" : `?${search}`}`;
  return asCurlOf({ method, path: full, body }, url, tenant);
}

interface RawRequest {
  readonly method: string;
  /** With `/api/v1` and the query. */
  readonly path: string;
  readonly body?: unknown;
}

export function asCurlOf({ method, path, body }: RawRequest, url: string, tenant: string): string {
  const parts = ["curl", ...(method === "GET" ? [] : ["-X", method]), quoted(`${url}${path}`)];
  parts.push("-H", '"x-api-key: $CORDUM_API_KEY"');
  if (tenant !== "") parts.push("-H", quoted(`x-tenant-id: ${tenant}`));
  if (method === "POST" || method === "PUT") {
    parts.push("-H", quoted("content-type: application/json"), "-d", quoted(JSON.stringify(body ?? {})));
  }
  return parts.join(" ");
}

/** A word of a POSIX shell. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** `asCli("job cancel", [id], "")`. `stdin`: what the command reads. */
export function asCli(command: string, args: readonly string[], tenant: string, stdin?: string): string {
  const input = stdin === undefined ? [] : ["printf", "%s", quoted(stdin), "|"];
  const chosen = tenant === "" ? [] : [`CORDUM_TENANT=${quoted(tenant)}`];
  return [...input, ...chosen, "cordum", command, ...args.map(quoted)].join(" ");
}
