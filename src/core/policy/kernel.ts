import { DEFAULT_POLICY } from "./built-in.ts";
import { compile, type Snapshot } from "./compile.ts";
import type { Decision, PolicyRequest } from "./decision.ts";
import type { PolicyDocument } from "./document.ts";
import { evaluate } from "./evaluate.ts";

/** A policy that decides, and where it comes from. */
export interface PolicyInForce {
  readonly snapshot: Snapshot;
  /** For operators: a file, a name, or which built-in one. */
  readonly source: string;
  /** Its release; null when it was never published: built in, or straight from a file. */
  readonly releaseId: string | null;
  /** Counts the changes; 0 for what is in force until something is published. */
  readonly revision: number;
}

/**
 * The safety kernel of one process: holds the policy in force.
 *
 * 1. A policy is replaced whole, between two decisions: every decision is made by one snapshot and carries its hash.
 * 2. There is always one: until another is put in force, the one that it was opened with decides.
 * 3. What is older than the policy in force never replaces it, however late it comes.
 */
export class LiveKernel {
  #inForce: PolicyInForce;

  constructor(inForce: PolicyInForce) {
    this.#inForce = inForce;
  }

  get inForce(): PolicyInForce {
    return this.#inForce;
  }

  /** False when it is older than what is in force. */
  put(next: PolicyInForce): boolean {
    return next.revision < this.#inForce.revision ? false : this.putAnyway(next);
  }

  /** For when the count itself has begun anew. */
  putAnyway(next: PolicyInForce): true {
    this.#inForce = next;
    return true;
  }

  decide(request: PolicyRequest): Decision {
    return evaluate(this.#inForce.snapshot, request);
  }
}

/** Until something is published. */
export function builtInKernel(
  document: PolicyDocument = DEFAULT_POLICY,
  source = "built-in: everything for tenant `default`",
): LiveKernel {
  return new LiveKernel({ snapshot: compile(document), source, releaseId: null, revision: 0 });
}
