import { compile, type Snapshot } from "./compile.ts";
import type { Decision, PolicyRequest } from "./decision.ts";
import type { PolicyDocument } from "./document.ts";
import { evaluate } from "./evaluate.ts";

export interface PolicyInForce {
  readonly snapshot: Snapshot;
  /** A file, a name, or a built-in policy; shown to operators. */
  readonly source: string;
  /** Null if it was never published: built in, or read directly from a file. */
  readonly releaseId: string | null;
  /** Counts the changes; 0 until something is published. */
  readonly revision: number;
}

/**
 * Holds the policy in force of one process.
 *
 * 1. A policy is replaced as a whole: every decision comes from one snapshot and carries its hash.
 * 2. There is always a policy: initially the one given to the constructor.
 * 3. An older policy never replaces a newer one.
 */
export class LiveKernel {
  #inForce: PolicyInForce;
  readonly #replaced = new Set<string>();

  constructor(inForce: PolicyInForce) {
    this.#inForce = inForce;
  }

  get inForce(): PolicyInForce {
    return this.#inForce;
  }

  /** False if it is older than the policy in force. */
  update(next: PolicyInForce): boolean {
    return next.revision < this.#inForce.revision ? false : this.replace(next);
  }

  /** For when the revision counter was reset. */
  replace(next: PolicyInForce): true {
    const { hash } = this.#inForce.snapshot;
    this.#inForce = next;
    this.noteReplaced([hash]);
    this.#replaced.delete(next.snapshot.hash);
    return true;
  }

  /** Earlier snapshots, newest last. Bounded: the oldest are forgotten. */
  noteReplaced(hashes: readonly string[]): void {
    for (const hash of hashes) if (hash !== this.#inForce.snapshot.hash) this.#replaced.add(hash);
    for (const oldest of this.#replaced) {
      if (this.#replaced.size <= REPLACED_MAX) return;
      this.#replaced.delete(oldest);
    }
  }

  /** Whether another policy has taken the place of this snapshot. False for snapshots of other kernels. */
  isReplaced(hash: string): boolean {
    return this.#replaced.size > 0 && this.#replaced.has(hash);
  }

  /** Evaluation steps of the last decision of this process. */
  get stepsOfLast(): number {
    const { conditions, shadow } = this.#inForce.snapshot;
    return conditions.steps + (shadow?.conditions.steps ?? 0);
  }

  decide(request: PolicyRequest): Decision {
    const { conditions, shadow } = this.#inForce.snapshot;
    conditions.reset();
    shadow?.conditions.reset();
    return evaluate(this.#inForce.snapshot, request);
  }
}

const REPLACED_MAX = 1_000;

/** The policy until one is published. */
export function builtInKernel(
  document: PolicyDocument = DEFAULT_POLICY,
  source = "built-in: everything for tenant `default`",
): LiveKernel {
  return new LiveKernel({ snapshot: compile(document), source, releaseId: null, revision: 0 });
}

/** In force when no file is given: allows everything for the tenant `default`, denies all others. */
export const DEFAULT_POLICY: PolicyDocument = {
  version: "built-in",
  defaultDecision: "deny",
  rules: [
    {
      id: "allow-tenant-default",
      match: { tenants: ["default"] },
      decision: "allow",
      reason: "the built-in policy allows everything for the tenant `default`",
    },
  ],
};

/** For `--demo`: one topic per decision. */
export const DEMO_POLICY: PolicyDocument = {
  version: "built-in-demo",
  defaultDecision: "deny",
  rules: [
    {
      id: "deny-demo-forbidden",
      match: { topics: ["demo.forbidden"] },
      decision: "deny",
      reason: "the demo policy forbids this topic, to show what a denial looks like",
    },
    {
      id: "approve-demo-approve",
      match: { topics: ["demo.approve", "refund.pay"] },
      decision: "require_approval",
      reason: "the demo policy requires approval of this topic, to show how one is given",
      // On one machine without keys, submitter and approver are the same.
      approval: { expiresMs: null, bySubmitter: true },
    },
    {
      id: "limit-demo-limited",
      match: { topics: ["demo.limited"] },
      decision: "allow_with_constraints",
      reason: "the demo policy limits this topic, to show what constraints look like",
      constraints: { budgets: { maxRuntimeMs: 10_000, maxRetries: 1 } },
    },
    { id: "allow-the-rest", match: {}, decision: "allow", reason: "the demo policy allows everything else" },
  ],
};
