import { BREAKERS } from "../../core/model/breaker.ts";
import { FAIL_OPENS } from "../../core/model/fail-open.ts";
import type { Stop } from "../../ports/bus.ts";
import { CHANGED } from "../../protocol/subjects.ts";
import { changedIn } from "../change-broadcast.ts";
import type { Flow } from "../engine.ts";
import { breakerChanged } from "./circuit-breaker.ts";
import { leasesChanged } from "./fail-open.ts";

/** Hears of it when another process has found out that the kernel does not answer, or has opened or closed a lease. */
export function followSafety(flow: Flow): Promise<Stop> {
  // Who starts while the kernel is away need not find out by asking it.
  breakerChanged(flow);
  return flow.world.bus.listen(CHANGED, (packet) => {
    switch (changedIn(flow, packet)) {
      case BREAKERS.name:
        breakerChanged(flow);
        return;
      case FAIL_OPENS.name:
        leasesChanged(flow);
    }
  });
}
