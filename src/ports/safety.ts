import type { Decision, PolicyRequest } from "../core/policy/decision.ts";

/**
 * The safety kernel, as the flow asks it.
 *
 * 1. A verdict is `decided`; only a kernel that did not answer is `unavailable`, or one that does not know this process
 *    and so judges nothing of it. A malformed request, a failed store write or a shutdown is neither: it is thrown.
 * 2. `local` is the kernel in this very process: it answers at once and cannot be down, so that admission, check and
 *    placement can be one commit. `null` where the kernel is somewhere else.
 */
export interface Safety {
  readonly local: ((request: PolicyRequest) => Decision) | null;
  check(request: PolicyRequest): Promise<Checked>;
}

export type Checked =
  | { readonly kind: "decided"; readonly decision: Decision }
  | { readonly kind: "unavailable"; readonly reason: string };
