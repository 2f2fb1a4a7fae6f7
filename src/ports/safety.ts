import type { Decision, PolicyRequest } from "../core/policy/decision.ts";

/**
 * Client of the safety kernel.
 *
 * 1. `check` resolves to `decided` with a verdict, or to `unavailable` if the kernel does not answer or does not
 *    authenticate this process. A malformed request, a failed store write or a shutdown is thrown.
 * 2. `local` is a kernel in this process. It is synchronous and always available, so admission, check and placement can
 *    share one commit. It is `null` if the kernel is remote.
 */
export interface Safety {
  readonly local: ((request: PolicyRequest) => Decision) | null;
  check(request: PolicyRequest): Promise<Checked>;
  /** Why a remote kernel does not answer now; null if it does. Nothing is checked. Absent for a kernel in this process. */
  probe?(): Promise<string | null>;
}

export type Checked =
  | { readonly kind: "decided"; readonly decision: Decision }
  | { readonly kind: "unavailable"; readonly reason: string };
