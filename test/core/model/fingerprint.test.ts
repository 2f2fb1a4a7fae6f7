import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  fingerprintOf,
  isFingerprint,
  messagePattern,
  PATTERN_LENGTH_MAX,
} from "../../../src/core/model/dead-letter.ts";

describe("messagePattern", () => {
  it.each([
    ["timeout after 3000 ms (attempt 4)", "timeout after <n> ms (attempt <n>)"],
    ["order 7f9c24e8-3b1a-4c2d-9e5f-0a1b2c3d4e5f not found", "order <id> not found"],
    ['no such user "ada" in `prod`', "no such user <value> in <value>"],
    ["can't read 'a.txt'", "can't read <value>"],
    ["failed at 2026-11-18T08:00:00.123Z", "failed at <time>"],
    ["commit deadbeef01 rejected, address 0xFF00", "commit <hex> rejected, address <hex>"],
    ["customer cus_9x8 on host-12 refused", "customer <id> on <id> refused"],
    ["connect ECONNREFUSED 127.0.0.1:5432", "connect ECONNREFUSED <n>"],
    ["line one\n\tline   two\u0000", "line one line two"],
    ["http2 stream closed", "http2 stream closed"],
  ])("replaces what differs between occurrences: %s", (message, pattern) => {
    expect(messagePattern(message)).toBe(pattern);
  });

  it("is bounded in length and time for hostile messages", () => {
    const hostile = ["'", '"', "a-", "1.", "0x", "é_", "a_1-", "2026-01-01T", "\u0000"].map((part) =>
      part.repeat(100_000),
    );
    const startedMs = performance.now();
    for (const message of hostile) expect(messagePattern(message).length).toBeLessThanOrEqual(PATTERN_LENGTH_MAX);
    expect(performance.now() - startedMs).toBeLessThan(1_000);
  });
});

describe("fingerprintOf", () => {
  const failure = { topic: "pay", reason: "budget", errorName: "Error", message: "order 1 failed" };

  it("is equal for messages that differ in numbers, and differs by topic, reason, error and text", () => {
    const known = fingerprintOf(failure);
    expect(fingerprintOf({ ...failure, message: "order 27 failed" })).toBe(known);
    const others = [{ topic: "ship" }, { reason: "timeout" }, { errorName: "TypeError" }, { message: "order 1 lost" }];
    expect(new Set([known, ...others.map((other) => fingerprintOf({ ...failure, ...other }))]).size).toBe(5);
  });

  it("is well formed for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (topic, message) => {
        expect(isFingerprint(fingerprintOf({ ...failure, topic, message }))).toBe(true);
      }),
    );
  });
});
