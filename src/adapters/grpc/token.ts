/**
 * The token of a safety kernel, sent with every call as `authorization: Bearer …` and checked before the request is read.
 *
 * 1. The comparison takes constant time. A missing and a wrong token get the same status.
 * 2. Tokens are never logged. Rejected calls are logged once a minute, as a count with the last peer.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { Metadata, ServerInterceptingCall, type ServerInterceptor, status } from "@grpc/grpc-js";
import type { Log } from "../../ports/log.ts";

/** The metadata of every call. */
export function tokenMetadata(token: string | null): Metadata {
  const metadata = new Metadata();
  if (token !== null) metadata.set(HEADER, `${SCHEME}${token}`);
  return metadata;
}

export function tokenCheck(token: string, log: Log): ServerInterceptor {
  const expected = digest(`${SCHEME}${token}`);
  const rejections = new Rejections(log);
  const isKnown = (sent: readonly (string | Buffer)[]) =>
    sent.length === 1 && timingSafeEqual(digest(String(sent[0])), expected);
  return (_, call) =>
    new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata(metadata, proceed) {
            const sent = metadata.get(HEADER);
            if (isKnown(sent)) {
              proceed(metadata);
              return;
            }
            rejections.record(call.getPeer(), sent.length === 0 ? "no token" : "wrong token");
            call.sendStatus({ code: status.UNAUTHENTICATED, details: "missing or wrong token" });
          },
        }),
    });
}

class Rejections {
  readonly #log: Log;
  #count = 0;
  #loggedMs = Number.NEGATIVE_INFINITY;

  constructor(log: Log) {
    this.#log = log;
  }

  record(peer: string, error: string): void {
    this.#count++;
    const nowMs = performance.now();
    if (nowMs - this.#loggedMs < LOG_EVERY_MS) return;
    const fix = "set the same `safety.token` for the kernel and its clients";
    this.#log.write("warn", "safety_caller_refused", { peer, error, times: this.#count, fix });
    this.#loggedMs = nowMs;
    this.#count = 0;
  }
}

const HEADER = "authorization";
const SCHEME = "Bearer ";
const LOG_EVERY_MS = 60_000;

/** Equal lengths for `timingSafeEqual`. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
