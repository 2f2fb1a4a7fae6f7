import type { Snapshot } from "../../core/policy/compile.ts";
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { LiveKernel } from "../../core/policy/kernel.ts";
import type { Safety } from "../../ports/safety.ts";

/** The safety kernel in this process: synchronous and always available. */
export function localSafety(policy: LiveKernel | Snapshot): Safety {
  const kernel =
    policy instanceof LiveKernel
      ? policy
      : new LiveKernel({ snapshot: policy, source: "fixed", releaseId: null, revision: 0 });
  const local = (request: PolicyRequest) => kernel.decide(request);
  return {
    local,
    async check(request) {
      return { kind: "decided", decision: local(request) };
    },
  };
}
