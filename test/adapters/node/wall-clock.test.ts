import { describe, expect, it } from "vitest";
import { cryptoRandom } from "../../../src/adapters/node/crypto-random.ts";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";

describe("wallClock", () => {
  it("calls back once, not before the delay has passed", async () => {
    for (const delayMs of [0, 0.5, 3, 7.3]) {
      const startMs = performance.now();
      let calls = 0;
      await new Promise<void>((resolve) => {
        wallClock.after(delayMs, () => {
          calls += 1;
          resolve();
        });
      });
      expect(performance.now() - startMs).toBeGreaterThanOrEqual(delayMs);
      expect(calls).toBe(1);
    }
  });

  it("does not call a cancelled timer, nor a timer of a month at once", async () => {
    const called: string[] = [];
    const cancel = wallClock.after(1, () => called.push("cancelled"));
    const cancelMonth = wallClock.after(31 * 24 * 3_600_000, () => called.push("month"));
    cancel();
    await new Promise<void>((resolve) => wallClock.after(5, resolve));
    cancelMonth();
    expect(called).toEqual([]);
  });
});

describe("cryptoRandom", () => {
  it("returns numbers uniform in [0, 1)", () => {
    const random = cryptoRandom(wallClock);
    const bins = Array<number>(10).fill(0);
    for (let n = 0; n < 100_000; n++) {
      const bin = Math.floor(random.next() * 10);
      bins[bin] = (bins[bin] ?? 0) + 1;
    }
    expect(bins).toHaveLength(10);
    for (const bin of bins) expect(Math.abs(bin - 10_000)).toBeLessThan(700);
  });

  it("creates unique, URL-safe ids of 26 characters that sort by time", () => {
    let nowMs = 1_700_000_000_000;
    const random = cryptoRandom({ now: () => nowMs, after: () => () => {} });
    const ids = Array.from({ length: 20_000 }, () => {
      nowMs += 1;
      return random.id();
    });
    expect(ids.every((id) => /^[0-9a-z]{26}$/.test(id))).toBe(true);
    expect([...ids].sort()).toEqual(ids);
    nowMs = 5;
    const together = Array.from({ length: 50_000 }, () => random.id());
    expect(new Set(together).size).toBe(together.length);
  });
});
