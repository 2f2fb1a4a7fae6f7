/**
 * Batched safety checks. This is an extension of CAP: third-party kernels answer UNIMPLEMENTED.
 *
 * A frame contains each check and decision as encoded bytes, so a malformed one does not affect the others.
 */
import type { Decision } from "../core/policy/decision.ts";
import { MalformedError } from "./bytes.ts";
import type { PlainMessage } from "./fields.ts";
import { compile } from "./protobuf.ts";
import { decodeDecision, SAFETY_BYTES_MAX } from "./safety.ts";
import { SAFETY_FRAMES } from "./safety-schema.ts";

export type FramedDecision =
  | { readonly kind: "decided"; readonly decision: Decision }
  /** The kernel rejected the check as malformed, or its decision is malformed. */
  | { readonly kind: "malformed"; readonly error: string };

export function encodeCheckFrame(checks: readonly Uint8Array[]): Uint8Array {
  return CHECKS.encode({ checks });
}

/** Decides each check of a frame. */
export function decideFrame(frame: Uint8Array, decide: (check: Uint8Array) => Uint8Array): Uint8Array {
  const checks = (CHECKS.decode(frame).checks ?? []) as Uint8Array[];
  const answers = checks.map((check) => {
    try {
      return { decision: decide(check) };
    } catch (error) {
      if (error instanceof MalformedError) return { malformed: error.message };
      throw error;
    }
  });
  return ANSWERS.encode({ answers });
}

export function decodeDecisionFrame(frame: Uint8Array, count: number): readonly FramedDecision[] {
  const answers = (ANSWERS.decode(frame).answers ?? []) as PlainMessage[];
  if (answers.length !== count) throw new MalformedError(`${answers.length} decisions for ${count} checks`);
  return answers.map(({ decision, malformed }): FramedDecision => {
    if (decision === undefined) return { kind: "malformed", error: `INVALID_ARGUMENT: ${String(malformed)}` };
    try {
      return { kind: "decided", decision: decodeDecision(decision as Uint8Array) };
    } catch (error) {
      if (error instanceof MalformedError) return { kind: "malformed", error: error.message };
      throw error;
    }
  });
}

const CHECKS = compile(SAFETY_FRAMES, "PolicyCheckFrame", SAFETY_BYTES_MAX);
const ANSWERS = compile(SAFETY_FRAMES, "PolicyDecisionFrame", SAFETY_BYTES_MAX);
