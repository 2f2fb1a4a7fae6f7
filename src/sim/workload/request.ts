import type { Engine } from "../../engine/engine.ts";
import type { SimNet } from "../adapters/world.ts";
import type { SeededRandom } from "../random.ts";
import type { System } from "../system.ts";

/** A client outside the system. */
export interface ClientContext {
  readonly net: SimNet;
  readonly system: System;
  readonly random: SeededRandom;
}

/** Sends a request to a random control process. Calls `onFailure` on an error, on a timeout, and while the host is down. */
export function sendRequest<T>(
  { net, system, random }: ClientContext,
  request: (engine: Engine) => Promise<T>,
  onFailure: () => void,
  onReply: (reply: T) => void,
): void {
  const { timeline, faults } = net;
  const { host, engine } = random.pick(system.controls);
  let isEnded = false;
  const end = (callback: () => void): void => {
    if (isEnded) return;
    isEnded = true;
    cancel();
    callback();
  };
  const cancel = timeline.afterQuiet(TIMEOUT_MS, () => end(onFailure));
  const reply = (callback: () => void): void => {
    if (!net.random.chance(faults.bus.broadcastLossRate)) timeline.post(1, () => end(callback));
  };
  if (host.process === null || engine === null) {
    end(onFailure);
    return;
  }
  host.process.enter(() => {
    request(engine).then(
      (value) => reply(() => onReply(value)),
      () => reply(onFailure),
    );
  });
}

const TIMEOUT_MS = 6_000;
