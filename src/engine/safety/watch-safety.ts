import { BREAKERS } from "../../core/model/breaker.ts";
import { FAIL_OPENS } from "../../core/model/fail-open.ts";
import type { Stop } from "../../ports/bus.ts";
import { CHANGED } from "../../protocol/subjects.ts";
import { changeIn } from "../change-broadcast.ts";
import type { Needs } from "../engine.ts";
import { breakerChanged } from "./circuit-breaker.ts";

/** Hears of it when another process has found out that the kernel does not answer, or has opened or closed a lease. */
export function watchSafety(engine: Needs<"world" | "tasks" | "safety">): Promise<Stop> {
  // Who starts while the kernel is away need not find out by asking it.
  breakerChanged(engine);
  return engine.world.bus.subscribe(CHANGED, (packet) => {
    switch (changeIn(engine, packet)) {
      case BREAKERS.name:
        breakerChanged(engine);
        return;
      case FAIL_OPENS.name:
        engine.safety.grants.refresh();
    }
  });
}
