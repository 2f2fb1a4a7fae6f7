import type { Snapshot } from "../policy/compile.ts";
import type { PolicyRequest } from "../policy/decision.ts";
import { evaluate } from "../policy/evaluate.ts";
import type { Safety } from "../ports/safety.ts";

/** The safety kernel in this very process: it answers at once and cannot be down. */
export function localSafety(snapshot: Snapshot): Safety {
  const local = (request: PolicyRequest) => evaluate(snapshot, request);
  return {
    local,
    async check(request) {
      return { kind: "decided", decision: local(request) };
    },
  };
}
