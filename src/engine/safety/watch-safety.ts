import { BREAKERS } from "../../core/model/breaker.ts";
import { FAIL_OPENS } from "../../core/model/fail-open.ts";
import type { Stop } from "../../ports/bus.ts";
import { CHANGED } from "../../protocol/subjects.ts";
import { changeIn } from "../change-broadcast.ts";
import type { Needs } from "../engine.ts";
import { breakerChanged } from "./circuit-breaker.ts";

/** Refreshes breaker and grants when another process changed them. */
export function watchSafety(engine: Needs<"world" | "tasks" | "safety">): Promise<Stop> {
  // A process that starts during an outage learns of it from the store.
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
