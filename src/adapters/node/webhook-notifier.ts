import { createHash, createHmac } from "node:crypto";
import type { NotificationMessage, Notifier, SendOutcome } from "../../ports/notifier.ts";

export interface WebhookOptions {
  readonly urls: readonly string[];
  readonly secret: string;
  /** Ends open requests, so that a slow receiver does not delay the end of the process. */
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/** Posts notifications as webhooks, signed as Standard Webhooks specify. Redirects are not followed. */
export function webhookNotifier({ urls, secret, signal, timeoutMs = TIMEOUT_MS }: WebhookOptions): Notifier {
  const byId = new Map(urls.map((url) => [receiverId(url), url]));
  const key = keyOf(secret);
  const open = new Map<string, number>();
  // One listener for all requests: one for each would be reported as a leak.
  const requests = new Set<AbortController>();
  signal.addEventListener("abort", () => {
    for (const request of requests) request.abort();
  });
  const add = (receiver: string, delta: number) => open.set(receiver, (open.get(receiver) ?? 0) + delta);
  return {
    receivers: [...byId.keys()],
    pendingMax: PENDING_MAX,
    reserve(receiver) {
      if ((open.get(receiver) ?? 0) >= OPEN_MAX) return null;
      add(receiver, 1);
      return () => void add(receiver, -1);
    },
    async send(receiver, message) {
      const url = byId.get(receiver);
      if (url === undefined) return failed("unknown receiver");
      const ended = new AbortController();
      const timer = setTimeout(() => ended.abort(), timeoutMs);
      requests.add(ended);
      try {
        if (signal.aborted) return { kind: "stopped" };
        return await post(url, message, key, ended.signal);
      } catch (error) {
        if (signal.aborted) return { kind: "stopped" };
        return failed(ended.signal.aborted ? `no response within ${timeoutMs} ms` : reasonOf(error));
      } finally {
        clearTimeout(timer);
        requests.delete(ended);
      }
    },
  };
}

/** Stored and logged instead of the URL, which often contains a token. */
export const receiverId = (url: string): string => createHash("sha256").update(url).digest("hex").slice(0, 16);

async function post(
  url: string,
  { id, atMs, body }: NotificationMessage,
  key: Buffer,
  signal: AbortSignal,
): Promise<SendOutcome> {
  const timestamp = String(Math.floor(atMs / 1_000));
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  const response = await fetch(url, {
    method: "POST",
    redirect: "manual",
    signal,
    body,
    headers: {
      "content-type": "application/cloudevents+json; charset=utf-8",
      "user-agent": "cordum",
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": `v1,${signature}`,
    },
  });
  // Not read: its size is the receiver's choice.
  await response.body?.cancel().catch(() => undefined);
  if (response.ok) return { kind: "accepted" };
  const { status } = response;
  const isRedirect = status >= 300 && status < 400;
  const why = isRedirect ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`;
  return failed(why, retryAfterMs(response.headers.get("retry-after"), Date.now()));
}

/** Seconds or an HTTP date (RFC 9110); 0 if absent, past or neither. */
export function retryAfterMs(value: string | null, nowMs: number): number {
  if (value === null) return 0;
  const delayMs = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - nowMs;
  return Number.isSafeInteger(delayMs) && delayMs > 0 ? delayMs : 0;
}

const failed = (why: string, afterMs = 0): SendOutcome => ({ kind: "failed", why, retryAfterMs: afterMs });

/** A secret with the prefix `whsec_` is base64; any other is used as it is. */
function keyOf(secret: string): Buffer {
  return secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), "base64") : Buffer.from(secret);
}

/** A system code such as `ECONNREFUSED`; messages may contain the address. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: unknown } };
  return typeof cause?.code === "string" ? `request failed: ${cause.code}` : "request failed";
}

const PREFIX = "whsec_";
const TIMEOUT_MS = 10_000;
/** Requests per receiver. */
const OPEN_MAX = 16;
const PENDING_MAX = 10_000;
