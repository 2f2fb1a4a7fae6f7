/** `cordum/client` for commands: one attempt per request; only `retryWhileUnavailable` repeats. */
import { tokenFor } from "../adapters/node/startup-token.ts";
import { Client } from "../client/client.ts";
import { CordumError, describeCause } from "../client/client-error.ts";
import { backoffMs, retry } from "../client/retry.ts";
import { processParts } from "../worlds/client-sdk.ts";
import { CliError, EXIT, exitCodeForStatus, nextFor } from "./exit.ts";
import type { Io } from "./io.ts";

export type { Client } from "../client/client.ts";

// biome-ignore lint/suspicious/noExplicitAny: the gateway may have another version than this client.
export type Json = any;

export function openClient(io: Io): Client {
  const url = baseUrl(io.env.CORDUM_URL);
  const apiKey = io.env.CORDUM_API_KEY || tokenFor(url, io.env) || undefined;
  return new Client(processParts(), { url, apiKey, tenant: io.env.CORDUM_TENANT, attemptsMax: 1 });
}

/** Repeats requests whose response has a `Retry-After`, until the deadline. For idempotent requests only. */
export function retryWhileUnavailable<T>(io: Io, untilMs: number, send: () => Promise<T>): Promise<T> {
  const delayMs = (error: unknown, attempt: number) => {
    const serverMs = error instanceof CordumError ? error.retryAfterMs : null;
    return serverMs === null ? null : backoffMs(attempt, serverMs, Math.random());
  };
  return retry(io, { attemptsMax: Number.POSITIVE_INFINITY, untilMs, delayMs }, send);
}

/** A failed request with its exit code and the next command. */
export function cliErrorFrom(io: Io, error: CordumError): CliError {
  const { code, status, problem, retryAfterMs } = error;
  const url = baseUrl(io.env.CORDUM_URL);
  if (status === null) {
    const why = describeCause(error.cause);
    return new CliError(EXIT.unavailable, `cannot reach the control plane at ${url} (${why})`, "cordum up");
  }
  const exitCode = exitCodeForStatus(status);
  if (code === "response_too_large") return new CliError(exitCode, error.message, null);
  if (Object.keys(problem).length === 0) {
    const advice = "check that CORDUM_URL is a cordum gateway";
    return new CliError(
      exitCode,
      `${url} responded with status ${status} and no JSON body; ${advice}`,
      "cordum status",
    );
  }
  const fields: Record<string, unknown> = { ...problem };
  // The body has milliseconds, the header whole seconds.
  if (typeof fields.retry_after_ms !== "number" && retryAfterMs !== null) fields.retry_after_ms = retryAfterMs;
  const detail = typeof fields.detail === "string" ? error.detail : `the control plane responded with status ${status}`;
  const title = typeof fields.title === "string" ? `${error.title}: ` : "";
  return new CliError(exitCode, `${title}${detail}`, nextFor(status, fields), fields);
}

const DEFAULT_URL = "http://127.0.0.1:8081";

function baseUrl(text: string | undefined): string {
  if (text === undefined || text === "") return DEFAULT_URL;
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text.replace(/\/+$/, "");
  throw new CliError(
    EXIT.usage,
    `CORDUM_URL \`${text}\` is not an http or https URL`,
    `export CORDUM_URL=${DEFAULT_URL}`,
  );
}
