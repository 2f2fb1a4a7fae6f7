/**
 * Many checks in one call. Ours: CAP has no such thing, and a kernel of others answers that it does not know the method.
 *
 * A frame carries each check and each decision as the bytes that they would be alone; one that is malformed spoils no other.
 */
import type { Decision } from "../core/policy/decision.ts";
import { MalformedError } from "./bytes.ts";
import type { PlainMessage } from "./fields.ts";
import { compile } from "./protobuf.ts";
import { decodeDecision, SAFETY_BYTES_MAX } from "./safety.ts";
import { SAFETY_FRAMES } from "./safety-schema.ts";

export type FramedAnswer =
  | { readonly kind: "decided"; readonly decision: Decision }
  /** The check was malformed, says the kernel; or its answer is. */
  | { readonly kind: "malformed"; readonly why: string };

export function encodeChecks(checks: readonly Uint8Array[]): Uint8Array {
  return CHECKS.encode({ checks });
}

/** Answers each check of a frame by `decide`, which takes and gives bytes. */
export function answerChecks(frame: Uint8Array, decide: (check: Uint8Array) => Uint8Array): Uint8Array {
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

export function decodeAnswers(frame: Uint8Array, count: number): readonly FramedAnswer[] {
  const answers = (ANSWERS.decode(frame).answers ?? []) as PlainMessage[];
  if (answers.length !== count) throw new MalformedError(`${answers.length} answers to ${count} checks`);
  return answers.map(({ decision, malformed }): FramedAnswer => {
    if (decision === undefined) return { kind: "malformed", why: `INVALID_ARGUMENT: ${String(malformed)}` };
    try {
      return { kind: "decided", decision: decodeDecision(decision as Uint8Array) };
    } catch (error) {
      if (error instanceof MalformedError) return { kind: "malformed", why: error.message };
      throw error;
    }
  });
}

const CHECKS = compile(SAFETY_FRAMES, "PolicyCheckFrame", SAFETY_BYTES_MAX);
const ANSWERS = compile(SAFETY_FRAMES, "PolicyDecisionFrame", SAFETY_BYTES_MAX);
