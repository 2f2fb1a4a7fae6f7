import type { Given } from "../jobs/life.ts";
import type { LiveSettings } from "../settings.ts";
import type { World } from "../world.ts";
import { Desk } from "./desk.ts";

/** What every station of one process works with: the outside, the settings in force, and what the process remembers. */
export interface Flow {
  readonly world: World;
  readonly settings: LiveSettings;
  readonly desk: Desk;
}

export function openFlow(world: World, settings: LiveSettings): Flow {
  return { world, settings, desk: new Desk() };
}

/** The time, the settings and the chance that a decision is given. */
export function given(flow: Flow): Given {
  const { clock, random } = flow.world;
  return { nowMs: clock.now(), settings: flow.settings.current, random: () => random.next() };
}
