/**
 * The token of a safety kernel: sent with every call as `authorization: Bearer …`, and asked for before anything of the
 * question is read.
 *
 * 1. Compared in constant time. A missing one and a wrong one get the same answer.
 * 2. What was sent is written down nowhere. Refused calls are, as a count and the last peer, once a minute at most: whoever
 *    knocks must not fill the log.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { Metadata, ServerInterceptingCall, type ServerInterceptor, status } from "@grpc/grpc-js";
import type { Log } from "../../ports/log.ts";

/** What goes with every call of a caller. */
export function tokenMetadata(token: string | null): Metadata {
  const metadata = new Metadata();
  if (token !== null) metadata.set(HEADER, `${SCHEME}${token}`);
  return metadata;
}

export function tokenCheck(token: string, log: Log): ServerInterceptor {
  const expected = digest(`${SCHEME}${token}`);
  const refusals = new Refusals(log);
  const isKnown = (sent: readonly (string | Buffer)[]) =>
    sent.length === 1 && timingSafeEqual(digest(String(sent[0])), expected);
  return (_, call) =>
    new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata(metadata, go) {
            const sent = metadata.get(HEADER);
            if (isKnown(sent)) {
              go(metadata);
              return;
            }
            refusals.note(call.getPeer(), sent.length === 0 ? "no token" : "a wrong token");
            call.sendStatus({ code: status.UNAUTHENTICATED, details: "the token is missing or wrong" });
          },
        }),
    });
}

class Refusals {
  readonly #log: Log;
  #count = 0;
  #writtenMs = Number.NEGATIVE_INFINITY;

  constructor(log: Log) {
    this.#log = log;
  }

  note(peer: string, why: string): void {
    this.#count++;
    const nowMs = Date.now();
    if (Math.abs(nowMs - this.#writtenMs) < EVERY_MS) return;
    const advice = "give the kernel and its callers the same `safety.token`";
    this.#log.write("warn", "safety_caller_refused", { peer, why, times: this.#count, advice });
    this.#writtenMs = nowMs;
    this.#count = 0;
  }
}

const HEADER = "authorization";
const SCHEME = "Bearer ";
const EVERY_MS = 60_000;

/** Of equal length whatever was sent. */
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
