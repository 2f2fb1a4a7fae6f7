/**
 * The safety kernel in another process, over gRPC.
 *
 * 1. `unavailable` means that no answer came, or that the kernel and this process do not know each other: nothing was
 *    judged. Everything else that is no decision is thrown: a question that the kernel calls malformed, an answer that we
 *    cannot read, our own shutdown.
 * 2. Checks of one tick travel together, in frames that our own kernel understands; a call costs ten times as much as a
 *    check. A kernel of others says that it does not know frames, and is asked one by one.
 */
import { status } from "@grpc/grpc-js";
import type { Log } from "../../ports/log.ts";
import type { Checked, Safety } from "../../ports/safety.ts";
import { decodeDecision, encodeCheck, SAFETY_BYTES_MAX } from "../../protocol/safety.ts";
import { decodeAnswers, encodeChecks } from "../../protocol/safety-frame.ts";
import { FRAME_PATH, safetyPath } from "../../protocol/safety-schema.ts";
import { type Called, GrpcLine } from "./client.ts";
import { type CallerTrust, NO_TRUST } from "./trust.ts";

export interface GrpcSafetyOptions {
  /** `host:port`. */
  readonly address: string;
  /** Asked for every call: it may be changed while running. */
  timeoutMs(): number;
  /** A line in the clear, without a token, when not given. */
  readonly trust?: CallerTrust;
  /** Where mistakes in the settings are told. */
  readonly log?: Log;
}

export interface GrpcSafety {
  readonly safety: Safety;
  close(): void;
}

export function openGrpcSafety({ address, timeoutMs, trust = NO_TRUST, log }: GrpcSafetyOptions): GrpcSafety {
  const line = new GrpcLine({ address, bytesMax: SAFETY_BYTES_MAX, trust, log: log ?? null });
  const asker = new Asker(line, timeoutMs);
  return {
    safety: {
      local: null,
      // Encoded before anything is sent: what cannot be encoded is thrown, and never looks like an outage.
      check: async (request) => asker.ask(encodeCheck(request)),
    },
    close: () => line.close(),
  };
}

interface Asked {
  readonly question: Uint8Array;
  resolve(checked: Checked): void;
  reject(error: unknown): void;
}

class Asker {
  readonly #line: GrpcLine;
  readonly #timeoutMs: () => number;
  #gathered: Asked[] = [];
  /** Until then the kernel is asked one by one, because it said that it does not know frames. */
  #oneByOneUntilMs = 0;

  constructor(line: GrpcLine, timeoutMs: () => number) {
    this.#line = line;
    this.#timeoutMs = timeoutMs;
  }

  ask(question: Uint8Array): Promise<Checked> {
    return new Promise((resolve, reject) => {
      if (this.#gathered.push({ question, resolve, reject }) === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const gathered = this.#gathered;
    this.#gathered = [];
    const groups = Date.now() < this.#oneByOneUntilMs ? gathered.map((one) => [one]) : inFrames(gathered);
    for (const group of groups) this.#send(group);
  }

  #send(group: readonly Asked[]): void {
    const [first] = group;
    const sent = group.length === 1 && first ? this.#askOne(first) : this.#askMany(group);
    sent.catch((error: unknown) => {
      for (const one of group) one.reject(error);
    });
  }

  async #askOne(asked: Asked): Promise<void> {
    const called = await this.#line.call(CHECK, asked.question, this.#timeoutMs());
    if (called.kind === "answered") asked.resolve({ kind: "decided", decision: decodeDecision(called.bytes) });
    else asked.resolve(unanswered(called));
  }

  async #askMany(group: readonly Asked[]): Promise<void> {
    const frame = encodeChecks(group.map(({ question }) => question));
    const called = await this.#line.call(FRAME_PATH, frame, this.#timeoutMs());
    if (called.kind === "silent") {
      for (const one of group) one.resolve({ kind: "unavailable", reason: called.reason });
      return;
    }
    if (called.kind === "refused") {
      if (called.code === status.UNIMPLEMENTED) this.#oneByOneUntilMs = Date.now() + ONE_BY_ONE_MS;
      // Whatever is wrong with the frame: each check gets an answer of its own.
      for (const one of group) this.#send([one]);
      return;
    }
    for (const [at, answer] of decodeAnswers(called.bytes, group.length).entries()) {
      if (answer.kind === "decided") group[at]?.resolve(answer);
      else group[at]?.reject(new Error(`the safety kernel refused the check: ${answer.why}`));
    }
  }
}

const CHECK = safetyPath("Check");
const ONE_BY_ONE_MS = 60_000;
const FRAME = { checks: 256, bytes: 1024 * 1024 } as const;

/** Throws what was refused. */
function unanswered(called: Exclude<Called, { kind: "answered" }>): Checked {
  if (called.kind === "refused") throw called.error;
  return { kind: "unavailable", reason: called.reason };
}

function inFrames(asked: readonly Asked[]): Asked[][] {
  const groups: Asked[][] = [];
  let bytes = 0;
  for (const one of asked) {
    const last = groups.at(-1);
    bytes += one.question.length;
    if (last === undefined || last.length >= FRAME.checks || bytes > FRAME.bytes) {
      groups.push([one]);
      bytes = one.question.length;
    } else last.push(one);
  }
  return groups;
}
