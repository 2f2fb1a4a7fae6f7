/**
 * The public API of `cordum/client`.
 *
 *   const client = createClient({ url: "http://127.0.0.1:8081" });
 *   const { job_id } = await client.jobs.submit({ topic: "demo.echo", input: { text: "hello" } });
 *   const { result } = await client.jobs.wait(job_id);
 */
import { setTimeout as sleepFor } from "node:timers/promises";
import { tokenFor } from "../adapters/node/startup-token.ts";
import { Client } from "../client/client.ts";
import type { ClientParts, TransportOptions } from "../client/transport.ts";

export type { Client } from "../client/client.ts";
export { type ClientErrorCode, CordumError } from "../client/client-error.ts";
export type { ClientEvent, StreamFilter } from "../client/event-stream.ts";
export type { ChangesOptions, WaitOptions } from "../client/follow.ts";
export type { OperationName } from "../client/operations.ts";
export type * from "../client/schema.ts";
export type { CallOptions } from "../client/transport.ts";

export interface ClientOptions extends Partial<TransportOptions> {
  /** `CORDUM_URL` by default, or the gateway on this machine. */
  readonly url?: string;
  /** `CORDUM_API_KEY` by default, or the start-up token of a gateway on this machine. */
  readonly apiKey?: string;
  /** Replacements of the environment, for tests. */
  readonly parts?: Partial<ClientParts>;
}

export function createClient({ parts, ...options }: ClientOptions = {}): Client {
  const { CORDUM_URL, CORDUM_API_KEY, CORDUM_TENANT } = process.env;
  const url = options.url ?? (CORDUM_URL || DEFAULT_URL);
  const apiKey = options.apiKey ?? (CORDUM_API_KEY || tokenFor(url, process.env) || undefined);
  const tenant = options.tenant ?? (CORDUM_TENANT || undefined);
  return new Client({ ...processParts(), ...parts }, { ...options, url, apiKey, tenant });
}

export function processParts(): ClientParts {
  return {
    fetch,
    random: () => Math.random(),
    newId: () => crypto.randomUUID(),
    nowMs: () => performance.now(),
    wallMs: () => Date.now(),
    sleep: (delayMs, signal) => sleepFor(delayMs, undefined, signal === undefined ? {} : { signal }),
    timeout: (delayMs) => AbortSignal.timeout(delayMs),
  };
}

const DEFAULT_URL = "http://127.0.0.1:8081";
