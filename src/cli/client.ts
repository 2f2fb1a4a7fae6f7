/**
 * The gateway as the commands ask it. Every way in which it can fail becomes an error with an exit code and a next step.
 *
 * Nothing is sent twice unless `patiently` is asked to: a script decides by itself whether to try again.
 */
import { CliError, EXIT, exitCodeForStatus } from "./exit.ts";
import type { Io } from "./io.ts";
import { nextFor } from "./next.ts";

export interface Client {
  readonly url: string;
  get(path: string, query?: Readonly<Record<string, string | undefined>>): Promise<Json>;
  post(path: string, body: object, headers?: Readonly<Record<string, string>>): Promise<Json>;
  delete(path: string): Promise<Json>;
  /** Server-sent events, as they come, until the signal or the other end ends them. */
  stream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | null>;
}

// biome-ignore lint/suspicious/noExplicitAny: documents of a server whose version may differ from ours; read with care.
export type Json = any;

export function openClient(io: Io): Client {
  const url = baseUrl(io.env.CORDUM_URL);
  const headers: Record<string, string> = { accept: "application/json" };
  if (io.env.CORDUM_API_KEY) headers["x-api-key"] = io.env.CORDUM_API_KEY;
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

/** `/jobs/…` with an id that may have anything in it. */
export function pathTo(...parts: readonly string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

/**
 * Asks again for as long as the control plane says "later" (429, 503), when it says. For commands that wait anyway, and
 * only for what may be asked twice.
 */
export async function retryWhileUnavailable<T>(io: Io, untilMs: number, ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const delayMs = error instanceof CliError ? error.facts.retry_after_ms : undefined;
      if (typeof delayMs !== "number" || io.nowMs() + delayMs > untilMs) throw error;
      await io.sleep(delayMs);
    }
  }
}

const DEFAULT_URL = "http://127.0.0.1:8081";
const ANSWER_MS_MAX = 30_000;

function baseUrl(text: string | undefined): string {
  if (text === undefined || text === "") return DEFAULT_URL;
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text.replace(/\/+$/, "");
  throw new CliError(
    EXIT.usage,
    `CORDUM_URL is \`${text}\`, which is no http address`,
    `export CORDUM_URL=${DEFAULT_URL}`,
  );
}

async function request(url: string, path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`${url}/api/v1${path}`, { ...init, signal: AbortSignal.timeout(ANSWER_MS_MAX) });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const why = cause instanceof Error ? cause.message || String((cause as { code?: string }).code) : String(cause);
    throw new CliError(EXIT.unavailable, `no control plane answers at ${url} (${why})`, "cordum up");
  }
}

async function readDocument(url: string, response: Response): Promise<Json> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    throw new CliError(
      exitCodeForStatus(response.status),
      `${url} answered ${response.status} with something that is no JSON; is it a cordum gateway?`,
      "cordum status",
    );
  }
}

function errorFrom({ status, headers }: Response, document: Json): CliError {
  const facts: Record<string, unknown> = { ...document };
  const detail = typeof facts.detail === "string" ? facts.detail : `the control plane answered ${status}`;
  const title = typeof facts.title === "string" ? `${facts.title}: ` : "";
  const after = Number(headers.get("retry-after") ?? Number.NaN);
  // The document is finer than the header, which has whole seconds.
  if (typeof facts.retry_after_ms !== "number" && after >= 0) facts.retry_after_ms = after * 1_000;
  return new CliError(exitCodeForStatus(status), `${title}${detail}`, nextFor(status, facts), facts);
}
