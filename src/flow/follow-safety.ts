import { BREAKERS } from "../model/breaker.ts";
import { FAIL_OPENS } from "../model/fail-open.ts";
import type { Stop } from "../ports/bus.ts";
import { CHANGED } from "../wire/subjects.ts";
import { breakerChanged } from "./breaker.ts";
import { changedIn } from "./changed.ts";
import { leasesChanged } from "./fail-open.ts";
import type { Flow } from "./flow.ts";

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
