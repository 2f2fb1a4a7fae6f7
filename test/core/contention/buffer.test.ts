import { describe, expect, test } from "vitest";
import { isSampled, keyHash, RECORD_MAX } from "../../../src/core/contention/acquisition.ts";
import { ContentionBuffer, CREDIT_MAX, CREDIT_PER_MINUTE } from "../../../src/core/contention/buffer.ts";
import { acquisition } from "./fixtures.ts";

describe("contention buffer", () => {
  test("keeps everything below its limit", () => {
    const buffer = new ContentionBuffer();
    for (let at = 0; at < 100; at++) buffer.add(acquisition({ key: at, arrivedMs: at }));
    const { acquisitions, level, dropped } = buffer.take(1);
    expect([acquisitions.length, level, dropped]).toEqual([100, 0, 0]);
    expect(buffer.size).toBe(0);
  });

  test("drops whole keys when it is full, and keeps the others whole", () => {
    const buffer = new ContentionBuffer();
    const [keys, perKey] = [500, 40];
    const hashes = Array.from({ length: keys }, (_, at) => keyHash(`key ${at}`));
    // Interleaved, so that a limit on acquisitions alone would cut every key.
    for (let at = 0; at < perKey; at++) {
      for (const key of hashes) buffer.add(acquisition({ key, arrivedMs: at }));
      expect(buffer.size).toBeLessThanOrEqual(RECORD_MAX);
    }
    const { acquisitions, level, dropped } = buffer.take(1);
    const counts = new Map<number, number>();
    for (const { key } of acquisitions) counts.set(key, (counts.get(key) ?? 0) + 1);
    expect(level).toBeGreaterThan(0);
    expect(dropped).toBe(0);
    expect(counts.size).toBeGreaterThan((keys / 2 ** level) * 0.6);
    expect([...counts.values()].every((count) => count === perKey)).toBe(true);
    expect([...counts.keys()].every((key) => isSampled(key, level))).toBe(true);
  });

  test("counts what it drops when one key alone exceeds the limit", () => {
    const buffer = new ContentionBuffer();
    for (let at = 0; at < RECORD_MAX + 50; at++) buffer.add(acquisition({ key: 1, arrivedMs: at }));
    const { acquisitions, dropped, level } = buffer.take(1);
    expect([acquisitions.length, dropped, level]).toEqual([RECORD_MAX, 50, 0]);
  });

  test("is bounded over hours of continuous contention", () => {
    const buffer = new ContentionBuffer();
    const minutes = 300;
    let kept = 0;
    for (let minute = 0; minute < minutes; minute++) {
      for (let at = 0; at < 400; at++) buffer.add(acquisition({ key: (minute * 40 + (at % 40)) * 2_654_435_761 }));
      kept += buffer.take(1).acquisitions.length;
    }
    expect(kept).toBeLessThanOrEqual(CREDIT_MAX + minutes * CREDIT_PER_MINUTE);
    expect(kept).toBeGreaterThan(CREDIT_MAX + (minutes * CREDIT_PER_MINUTE) / 4);
  });
});

test("a key that is dropped at one level is dropped at every higher one", () => {
  for (let at = 0; at < 1_000; at++) {
    const key = keyHash(`key ${at}`);
    const levels = Array.from({ length: 12 }, (_, level) => isSampled(key, level));
    expect(levels).toEqual([...levels].sort((a, b) => Number(b) - Number(a)));
  }
});
