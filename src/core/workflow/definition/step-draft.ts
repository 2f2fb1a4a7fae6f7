/** A step as it was read, before it is known what stands before and after it. */

import type { Act, OnError, PlanStep } from "./plan.ts";
import type { Path } from "./problems.ts";
import type { Reads } from "./references.ts";

export interface StepDraft {
  readonly id: string;
  readonly path: Path;
  readonly act: Act;
  readonly links: readonly Link[];
  readonly reads: readonly ReadAt[];
  readonly onError: OnError;
  readonly rest: Pick<
    PlanStep,
    "condition" | "forEach" | "timeoutMs" | "outputPath" | "inputSchema" | "outputSchema" | "input" | "retry" | "meta"
  >;
}

/** Another step that a step names, and as what. */
export interface Link {
  readonly kind: "depends_on" | "arm" | "branch" | "on_error";
  readonly to: string;
  readonly path: Path;
  /** Of an `arm`: which. */
  readonly arm?: string;
}

/** What an expression at this place reads. */
export interface ReadAt {
  readonly path: Path;
  readonly reads: Reads;
}
