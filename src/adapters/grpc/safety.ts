/**
 * Client of a safety kernel in another process, over gRPC.
 *
 * 1. `unavailable`: no response, or authentication failed; no check was made. Everything else that is not a decision is
 *    thrown: a check that the kernel rejects as malformed, an undecodable response, a shutdown.
 * 2. The checks of one tick are sent in frames: a call costs ten times as much as a check. A kernel that answers
 *    UNIMPLEMENTED receives single checks.
 */
import { status } from "@grpc/grpc-js";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import type { Log } from "../../ports/log.ts";
import type { Checked, Safety } from "../../ports/safety.ts";
import { decodeDecision, encodeCheck, SAFETY_BYTES_MAX } from "../../protocol/safety.ts";
import { decodeDecisionFrame, encodeCheckFrame } from "../../protocol/safety-frame.ts";
import { FRAME_PATH, safetyPath } from "../../protocol/safety-schema.ts";
import { type Called, GrpcClient } from "./client.ts";
import { type CallerTrust, NO_TRUST } from "./trust.ts";

export interface GrpcSafetyOptions {
  /** `host:port`. */
  readonly address: string;
  /** Read for every call: the setting can change at runtime. */
  timeoutMs(): number;
  /** Default: unencrypted, without a token. */
  readonly trust?: CallerTrust;
  /** For configuration errors. */
  readonly log?: Log;
}

export interface GrpcSafety {
  readonly safety: Safety;
  close(): void;
}

export function openGrpcSafety({ address, timeoutMs, trust = NO_TRUST, log }: GrpcSafetyOptions): GrpcSafety {
  const client = new GrpcClient({ address, bytesMax: SAFETY_BYTES_MAX, trust, log: log ?? null });
  const batcher = new CheckBatcher(client, timeoutMs);
  return {
    safety: {
      local: null,
      // Encoding errors are thrown before anything is sent: they are not outages.
      check: async (request) => atTimeOf(request, await batcher.check(encodeCheck(request))),
      probe: async () => {
        // A kernel that rejects the call is there.
        const called = await client.call(PROBE, NO_BYTES, Math.min(timeoutMs(), PROBE_MS_MAX));
        return called.kind === "silent" ? called.reason : null;
      },
    },
    close: () => client.close(),
  };
}

/** Kernels of third parties do not return the time that the check contained. */
function atTimeOf({ nowMs }: PolicyRequest, checked: Checked): Checked {
  if (nowMs === undefined || checked.kind !== "decided" || checked.decision.atMs !== undefined) return checked;
  return { kind: "decided", decision: { ...checked.decision, atMs: nowMs } };
}

interface PendingCheck {
  readonly bytes: Uint8Array;
  resolve(checked: Checked): void;
  reject(error: unknown): void;
}

class CheckBatcher {
  readonly #client: GrpcClient;
  readonly #timeoutMs: () => number;
  #pending: PendingCheck[] = [];
  /** Until then single checks are sent: the kernel does not implement frames. */
  #framesDisabledUntilMs = 0;

  constructor(client: GrpcClient, timeoutMs: () => number) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  check(bytes: Uint8Array): Promise<Checked> {
    return new Promise((resolve, reject) => {
      if (this.#pending.push({ bytes, resolve, reject }) === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const pending = this.#pending;
    this.#pending = [];
    const groups = performance.now() < this.#framesDisabledUntilMs ? pending.map((one) => [one]) : inFrames(pending);
    for (const group of groups) this.#send(group);
  }

  #send(group: readonly PendingCheck[]): void {
    const [first] = group;
    const sent = group.length === 1 && first ? this.#sendOne(first) : this.#sendFrame(group);
    sent.catch((error: unknown) => {
      for (const one of group) one.reject(error);
    });
  }

  async #sendOne(check: PendingCheck): Promise<void> {
    const called = await this.#client.call(CHECK, check.bytes, this.#timeoutMs());
    if (called.kind === "answered") check.resolve({ kind: "decided", decision: decodeDecision(called.bytes) });
    else check.resolve(unavailableOrThrow(called));
  }

  async #sendFrame(group: readonly PendingCheck[]): Promise<void> {
    const frame = encodeCheckFrame(group.map(({ bytes }) => bytes));
    const called = await this.#client.call(FRAME_PATH, frame, this.#timeoutMs());
    if (called.kind === "silent") {
      for (const one of group) one.resolve({ kind: "unavailable", reason: called.reason });
      return;
    }
    if (called.kind === "refused") {
      if (called.code === status.UNIMPLEMENTED) this.#framesDisabledUntilMs = performance.now() + FRAMES_DISABLED_MS;
      // A rejected frame is sent again as single checks.
      for (const one of group) this.#send([one]);
      return;
    }
    for (const [at, answer] of decodeDecisionFrame(called.bytes, group.length).entries()) {
      if (answer.kind === "decided") group[at]?.resolve(answer);
      else group[at]?.reject(new Error(`the safety kernel rejected the check: ${answer.error}`));
    }
  }
}

const CHECK = safetyPath("Check");
const PROBE = safetyPath("ListSnapshots");
const PROBE_MS_MAX = 1_000;
const NO_BYTES = new Uint8Array();
const FRAMES_DISABLED_MS = 60_000;
const FRAME = { checks: 256, bytes: 1024 * 1024 } as const;

function unavailableOrThrow(called: Exclude<Called, { kind: "answered" }>): Checked {
  if (called.kind === "refused") throw called.error;
  return { kind: "unavailable", reason: called.reason };
}

function inFrames(checks: readonly PendingCheck[]): PendingCheck[][] {
  const groups: PendingCheck[][] = [];
  let bytes = 0;
  for (const one of checks) {
    const last = groups.at(-1);
    bytes += one.bytes.length;
    if (last === undefined || last.length >= FRAME.checks || bytes > FRAME.bytes) {
      groups.push([one]);
      bytes = one.bytes.length;
    } else last.push(one);
  }
  return groups;
}
