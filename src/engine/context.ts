import type { DecisionContext } from "../core/jobs/transitions.ts";
import type { Arms } from "../core/model/arms.ts";
import type { Needs } from "./engine.ts";

/** Time, settings and random source of one decision about a unit. */
export function decisionContext(
  { world, settings }: Needs<"world" | "settings">,
  { arms }: { readonly arms?: Arms | undefined },
  nowMs = world.clock.now(),
): DecisionContext {
  return { nowMs, settings: settings.for(arms), random: () => world.random.next() };
}

/** The same for decisions that depend on no unit. */
export const NO_UNIT = {} as const;
