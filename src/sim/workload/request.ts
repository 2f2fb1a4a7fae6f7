import type { Engine } from "../../engine/engine.ts";
import type { SimNet } from "../adapters/world.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";

/**
 * A client outside the system, and one request of it: to any of the control processes, which may be away; the request, or
 * the answer to it, may get lost, and then the client asks again or gives up.
 */
export interface ClientContext {
  readonly net: SimNet;
  readonly system: System;
  readonly random: SeededRandom;
}

export function sendRequest<T>(
  { net, system, random }: ClientContext,
  request: (engine: Engine) => Promise<T>,
  again: () => void,
  hear: (answer: T) => void,
): void {
  const { timeline, faults } = net;
  const { host, engine } = random.pick(system.controls);
  let isOver = false;
  const over = (next: () => void): void => {
    if (isOver) return;
    isOver = true;
    cancel();
    next();
  };
  const cancel = timeline.afterQuiet(TIMEOUT_MS, () => over(again));
  const answer = (next: () => void): void => {
    if (!net.random.chance(faults.bus.broadcastLossRate)) timeline.post(1, () => over(next));
  };
  if (host.process === null || engine === null) {
    over(again);
    return;
  }
  host.process.enter(() => {
    request(engine).then(
      (told) => answer(() => hear(told)),
      () => answer(again),
    );
  });
}

const TIMEOUT_MS = 6_000;
