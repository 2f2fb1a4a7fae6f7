import type { World } from "../../ports/world.ts";
import { SimClock } from "../process.ts";
import { around, type Decorator } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in the use of clocks. */
export const CLOCK_MUTANTS: readonly Mutant[] = [
  {
    name: "timers-on-wall-time",
    about: "due times are compared with the system clock of the process, which may step",
    caughtBy: ["early", "stuck"],
    world: withClock((clock) => clock.wallMs()),
  },
];

function withClock(now: (clock: SimClock) => number): Decorator {
  return (world) => {
    const { clock } = world;
    if (!(clock instanceof SimClock)) throw new Error("the mutant needs a simulated clock");
    return { ...world, clock: around(clock as World["clock"], { now: () => now(clock) }) };
  };
}
