import { describe, expect, test } from "vitest";
import { conductNaks, measureNakLook } from "../../src/lab/lock-busy/naks.ts";
import { NO_NET_FAULTS } from "../../src/sim/faults.ts";
import { openBench } from "../sim/harness.ts";

/** On a broker that looks so long after the last message that it was handed for later. */
function measured(nakLookMs: number): Promise<number> {
  const bench = openBench({ faults: { ...NO_NET_FAULTS, bus: { ...NO_NET_FAULTS.bus, nakLookMs } } });
  const { world } = bench.enter("p");
  return bench.run(measureNakLook(world.bus, () => bench.net.timeline.nowMs));
}

describe("when the broker looks what is due", () => {
  test.each([5, 10, 40])("is found, without the way there and back: %d ms", async (lookMs) => {
    expect(Math.abs((await measured(lookMs)) - lookMs)).toBeLessThan(0.5);
  });

  test("is at once where each message has a timer of its own", async () => {
    expect(await measured(0)).toBe(0);
  });

  test("is asked of one process", async () => {
    const asked: unknown[] = [];
    const ask = async (index: number, question: unknown): Promise<unknown> => asked.push([index, question]) && 10.5;
    const crew = { size: 3, request: ask, requestAll: async () => [], onEvent: () => undefined };
    expect(await conductNaks(crew)).toEqual({ figures: { nak_look_ms: 10.5 }, isFinished: true });
    expect(asked).toEqual([[0, { do: "naks" }]]);
  });
});
