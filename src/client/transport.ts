/**
 * Requests to a gateway.
 *
 * 1. A request with an idempotency key carries the same key on every attempt.
 * 2. Every attempt and every call with its retries has a deadline; a response has a size limit.
 * 3. A signal aborts the attempt in progress and the delay between two attempts.
 */
import { CordumError, describeCause, errorFrom } from "./client-error.ts";
import { isRepeatable, KEYED, mayRetry, type OperationName } from "./operations.ts";
import { backoffMs, type RetryTime, retry } from "./retry.ts";
import type { Operations } from "./schema.ts";

/** What the client needs of its environment. */
export interface ClientParts extends RetryTime {
  readonly fetch: typeof fetch;
  /** In [0, 1). */
  random(): number;
  newId(): string;
  /** Milliseconds since the epoch. */
  wallMs(): number;
  /** A signal that aborts after the delay. */
  timeout(delayMs: number): AbortSignal;
}

export interface TransportOptions {
  /** Base URL of the gateway, for example `http://127.0.0.1:8081`. */
  readonly url: string;
  readonly apiKey?: string | undefined;
  /** Only keys of tenant `*` can name another tenant than their own. */
  readonly tenant?: string | undefined;
  /** Attempts of a call, the first included; 5 by default, 1 disables retries. */
  readonly attemptsMax?: number | undefined;
  /** Limit of a call with its retries; 60,000 by default. */
  readonly timeoutMs?: number | undefined;
  /** Limit of one attempt; 30,000 by default. */
  readonly attemptTimeoutMs?: number | undefined;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Limit of this call with its retries. */
  readonly timeoutMs?: number | undefined;
  /** For operations that accept a key; a new one per call by default. */
  readonly idempotencyKey?: string | undefined;
}

/** `path`, `query` and `body` of an operation, each only if it has one. */
export type Arguments<K extends OperationName> = Part<"path", Operations[K]["path"]> &
  Part<"query", Operations[K]["query"]> &
  Part<"body", Operations[K]["body"]>;

type Part<Name extends string, T> = [T] extends [undefined]
  ? unknown
  : NonNullable<unknown> extends T
    ? { readonly [key in Name]?: T }
    : undefined extends T
      ? { readonly [key in Name]?: T }
      : { readonly [key in Name]: T };

export interface RawRequest {
  readonly method: string;
  /** Below `/api/v1`, encoded. */
  readonly path: string;
  readonly query?: Query | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly signal?: AbortSignal | undefined;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export class Transport {
  readonly parts: ClientParts;
  readonly #options: TransportOptions;
  readonly #base: string;

  constructor(parts: ClientParts, options: TransportOptions) {
    this.parts = parts;
    this.#options = options;
    this.#base = `${options.url.replace(/\/+$/, "")}/api/v1`;
  }

  /** Sends an operation, with retries if it can be repeated. */
  async send<K extends OperationName>(
    name: K,
    args: Arguments<K>,
    options: CallOptions = {},
  ): Promise<Operations[K]["response"]> {
    const { path = {}, query, body } = args as { path?: Record<string, string>; query?: Query; body?: unknown };
    const [method = "", template = ""] = name.split(" ");
    const key = KEYED.has(name) ? this.#keyOf(body, options) : undefined;
    const filled = template.replace(/\{(\w+)\}/g, (_, field: string) => encodeURIComponent(path[field] ?? ""));
    const headers = key === undefined ? undefined : { "idempotency-key": key };
    const request = { method, path: filled, query, body: method === "POST" ? (body ?? {}) : undefined, headers };
    const repeatable = isRepeatable(name);
    const isFinal = (error: unknown) => !(error instanceof CordumError && mayRetry(error, repeatable));
    try {
      return (await this.#retried(request, options, isFinal)) as Operations[K]["response"];
    } catch (error) {
      if (error instanceof CordumError) error.idempotencyKey = key ?? null;
      throw error;
    }
  }

  /** One attempt. Every failure but an abort is a `CordumError`. */
  async attempt(request: RawRequest): Promise<unknown> {
    const timeout = this.parts.timeout(this.#options.attemptTimeoutMs ?? ATTEMPT_MS);
    const signal = request.signal === undefined ? timeout : AbortSignal.any([request.signal, timeout]);
    try {
      const response = await this.fetch({ ...request, signal });
      const text = await boundedText(response);
      const document = parse(text, response, this.#options.url);
      if (response.ok) return document;
      throw errorFrom(response, document);
    } catch (error) {
      if (error instanceof CordumError) throw error;
      request.signal?.throwIfAborted();
      throw this.#unreachable(timeout.aborted ? timeout.reason : error);
    }
  }

  /** The response, before its body is read. */
  fetch({ method, path, query = {}, body, headers, signal }: RawRequest): Promise<Response> {
    const { apiKey, tenant } = this.#options;
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
    return this.parts.fetch(`${this.#base}${path}${search.size === 0 ? "" : `?${search}`}`, {
      method,
      headers: {
        accept: "application/json",
        ...(apiKey ? { "x-api-key": apiKey } : {}),
        ...(tenant ? { "x-tenant-id": tenant } : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async #retried(request: RawRequest, options: CallOptions, isFinal: (error: unknown) => boolean): Promise<unknown> {
    const timeoutMs = options.timeoutMs ?? this.#options.timeoutMs ?? CALL_MS;
    const deadline = this.parts.timeout(timeoutMs);
    const signal = options.signal === undefined ? deadline : AbortSignal.any([options.signal, deadline]);
    const rule = {
      attemptsMax: this.#options.attemptsMax ?? ATTEMPTS_MAX,
      untilMs: this.parts.nowMs() + timeoutMs,
      signal,
      delayMs: (error: unknown, attempt: number) =>
        isFinal(error) ? null : backoffMs(attempt, (error as CordumError).retryAfterMs, this.parts.random()),
    };
    try {
      return await retry(this.parts, rule, () => this.attempt({ ...request, signal }));
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof CordumError || !deadline.aborted) throw error;
      const detail = `no response within ${timeoutMs} ms; the outcome is unknown: send the request again, or raise \`timeoutMs\``;
      throw new CordumError({ code: "deadline_exceeded", title: "deadline exceeded", detail, cause: error });
    }
  }

  /** A key in the body has priority, because the gateway rejects two that differ. */
  #keyOf(body: unknown, { idempotencyKey }: CallOptions): string {
    const own = (body as { idempotency_key?: string } | undefined)?.idempotency_key;
    return own ?? idempotencyKey ?? this.parts.newId();
  }

  #unreachable(error: unknown): CordumError {
    const why = describeCause(error);
    const detail = `cannot reach ${this.#options.url} (${why}); check the URL and that the gateway runs`;
    return new CordumError({ code: "unreachable", title: "gateway unreachable", detail, cause: error });
  }
}

function parse(text: string, response: Response, url: string): unknown {
  if (response.status === 204) return null;
  try {
    return JSON.parse(text);
  } catch (cause) {
    const { status } = response;
    // A proxy answers for the gateway: the status decides whether a retry helps.
    if (!response.ok) throw errorFrom(response, null);
    const detail = `${url} responded with status ${status} and no JSON body; check that it is a cordum gateway`;
    throw new CordumError({ code: "invalid_response", title: "invalid response", detail, status, cause });
  }
}

async function boundedText(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  for (let sizeBytes = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    sizeBytes += value.byteLength;
    if (sizeBytes > RESPONSE_BYTES_MAX) {
      await reader.cancel();
      const detail = `the body exceeds ${RESPONSE_BYTES_MAX} bytes; request a smaller page`;
      throw new CordumError({
        code: "response_too_large",
        title: "response too large",
        detail,
        status: response.status,
      });
    }
    text += decoder.decode(value, { stream: true });
  }
}

const ATTEMPTS_MAX = 5;
const ATTEMPT_MS = 30_000;
const CALL_MS = 60_000;
const RESPONSE_BYTES_MAX = 64 * 1024 * 1024;
