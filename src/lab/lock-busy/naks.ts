/**
 * When the broker of a target gives back what it was handed for later. JetStream has one timer for all of it, and each
 * message that is handed to it sets that anew: 10 ms from then (see `sim/nak-timer.ts`). So one that is due after a millisecond
 * comes back after ten.
 */
import type { Settlement } from "../../core/retry/bus-action.ts";
import type { Bus, Handler } from "../../ports/bus.ts";
import { RESULT } from "../../protocol/subjects.ts";
import type { LiveFigures, ProcessGroup } from "../live.ts";
import { median } from "../statistics.ts";
import { resultOf } from "./world.ts";

/** Seen from the command. */
export async function conductNaks(crew: ProcessGroup): Promise<LiveFigures> {
  return { figures: { nak_look_ms: Number(await crew.request(0, { do: "naks" })) }, isFinished: true };
}

/** How long it takes until the broker looks what is due; 0 where each message has its own timer. */
export async function measureNakLook(bus: Pick<Bus, "publish" | "consume">, nowMs: () => number): Promise<number> {
  const backMs = { atOnce: [] as number[], later: [] as number[] };
  let handedMs: number | null = null;
  let isDone: () => void = () => undefined;
  const done = new Promise<void>((resolve) => {
    isDone = resolve;
  });
  // There and back without a delay, then with one: the difference is what the delay took.
  const handle: Handler = async (): Promise<Settlement> => {
    const atMs = nowMs();
    const { atOnce, later } = backMs;
    if (handedMs !== null) (atOnce.length < TIMES ? atOnce : later).push(atMs - handedMs);
    handedMs = atMs;
    if (atOnce.length < TIMES) return { kind: "nak" };
    if (later.length < TIMES) return { kind: "nakDelay", delayMs: DELAY_MS };
    isDone();
    return { kind: "ack" };
  };
  const stop = await bus.consume(RESULT, "lab-naks", handle);
  await bus.publish(resultOf("lab-nak"));
  await done;
  await stop();
  const lookMs = median(backMs.later) - median(backMs.atOnce);
  // A timer of its own comes late as well, but not by much.
  return lookMs < TIMER_MS_MAX ? 0 : lookMs;
}

const DELAY_MS = 1;
const TIMES = 25;
const TIMER_MS_MAX = 3 * DELAY_MS;
