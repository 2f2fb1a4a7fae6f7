import type { DecisionContext } from "../core/jobs/transitions.ts";
import type { Needs } from "./engine.ts";

/** Time, settings and random source of one decision. */
export function decisionContext(
  { world, settings }: Needs<"world" | "settings">,
  nowMs = world.clock.now(),
): DecisionContext {
  return { nowMs, settings: settings.current, random: () => world.random.next() };
}
