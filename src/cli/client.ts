/** HTTP client of the gateway. Every failure becomes a `CliError` with an exit code; only `retryWhileUnavailable` retries. */
import { tokenFor } from "../adapters/node/startup-token.ts";
import { CliError, EXIT, exitCodeForStatus, nextFor } from "./exit.ts";
import type { Io } from "./io.ts";

export interface Client {
  readonly url: string;
  get(path: string, query?: Readonly<Record<string, string | undefined>>): Promise<Json>;
  post(path: string, body: object, headers?: Readonly<Record<string, string>>): Promise<Json>;
  delete(path: string): Promise<Json>;
  /** Server-sent events; null if the gateway rejects the subscription. */
  stream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | null>;
}

// biome-ignore lint/suspicious/noExplicitAny: the gateway may have another version than this client.
export type Json = any;

export function openClient(io: Io): Client {
  const url = baseUrl(io.env.CORDUM_URL);
  const headers: Record<string, string> = { accept: "application/json" };
  const key = io.env.CORDUM_API_KEY || tokenFor(url, io.env);
  if (key) headers["x-api-key"] = key;
  if (io.env.CORDUM_TENANT) headers["x-tenant-id"] = io.env.CORDUM_TENANT;
  const call = async (path: string, init: RequestInit) => {
    const response = await request(url, path, { ...init, headers: { ...headers, ...init.headers } });
    const document = await readDocument(url, response);
    if (response.ok) return document;
    throw errorFrom(response, document);
  };
  return {
    url,
    get(path, query = {}) {
      const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
      const search = given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
      return call(`${path}${search}`, { method: "GET" });
    },
    post(path, body, extra = {}) {
      const json = { "content-type": "application/json", ...extra };
      return call(path, { method: "POST", headers: json, body: JSON.stringify(body) });
    },
    delete: (path) => call(path, { method: "DELETE" }),
    async stream(path, signal) {
      const accept = "text/event-stream";
      const response = await fetch(`${url}/api/v1${path}`, { headers: { ...headers, accept }, signal });
      if (response.ok) return response.body;
      await response.body?.cancel();
      return null;
    },
  };
}

/** Joins path segments, with percent-encoding. */
export function pathTo(...parts: readonly string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

/** Retries 429 and 503 responses after their `Retry-After` until the deadline. For idempotent requests only. */
export async function retryWhileUnavailable<T>(io: Io, untilMs: number, send: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await send();
    } catch (error) {
      const delayMs = error instanceof CliError ? error.fields.retry_after_ms : undefined;
      if (typeof delayMs !== "number" || io.nowMs() + delayMs > untilMs) throw error;
      await io.sleep(delayMs);
    }
  }
}

const DEFAULT_URL = "http://127.0.0.1:8081";
const TIMEOUT_MS = 30_000;

function baseUrl(text: string | undefined): string {
  if (text === undefined || text === "") return DEFAULT_URL;
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text.replace(/\/+$/, "");
  throw new CliError(
    EXIT.usage,
    `CORDUM_URL \`${text}\` is not an http or https URL`,
    `export CORDUM_URL=${DEFAULT_URL}`,
  );
}

async function request(url: string, path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`${url}/api/v1${path}`, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const why = cause instanceof Error ? cause.message || String((cause as { code?: string }).code) : String(cause);
    throw new CliError(EXIT.unavailable, `cannot reach the control plane at ${url} (${why})`, "cordum up");
  }
}

async function readDocument(url: string, response: Response): Promise<Json> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    throw new CliError(
      exitCodeForStatus(response.status),
      `${url} responded with status ${response.status} and no JSON body; check that CORDUM_URL is a cordum gateway`,
      "cordum status",
    );
  }
}

function errorFrom({ status, headers }: Response, document: Json): CliError {
  const fields: Record<string, unknown> = { ...document };
  const detail =
    typeof fields.detail === "string" ? fields.detail : `the control plane responded with status ${status}`;
  const title = typeof fields.title === "string" ? `${fields.title}: ` : "";
  const after = Number(headers.get("retry-after") ?? Number.NaN);
  // The body has milliseconds, the header whole seconds.
  if (typeof fields.retry_after_ms !== "number" && after >= 0) fields.retry_after_ms = after * 1_000;
  return new CliError(exitCodeForStatus(status), `${title}${detail}`, nextFor(status, fields), fields);
}
