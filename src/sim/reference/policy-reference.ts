import type { Effect } from "../../core/policy/decision.ts";

/** What the policies of the plan decide, written without the policy engine. */
export interface ReferenceVerdict {
  readonly effect: Effect;
  readonly ruleId: string | null;
  /** The shadow rules that would have decided. */
  readonly shadow: readonly string[];
}

export function referenceVerdict(hasThrottle: boolean, topic: string, atMs: number): ReferenceVerdict {
  const is = (family: string) => topic.startsWith(`${family}.`);
  if (is("danger")) return { effect: "deny", ruleId: "no-danger", shadow: [] };
  if (is("ask")) return { effect: "require_approval", ruleId: "ask", shadow: [] };
  if (is("slow") && hasThrottle) return { effect: "throttle", ruleId: "slow", shadow: [] };
  const shadow = topic === "work.beta" ? ["dry"] : [];
  const isEven = Math.floor(atMs / 1_000) % 2 === 0;
  if (topic === "work.alpha" && isEven) return { effect: "allow_with_constraints", ruleId: "even", shadow };
  return { effect: "allow", ruleId: null, shadow };
}
