import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Acquisition,
  CONTENTION_PATHS,
  type ContentionRecord,
  RECORD_MAX,
} from "../../../src/core/contention/acquisition.ts";
import {
  DamagedRecordError,
  decodeRecord,
  encodeRecord,
  readRecordDocument,
  recordDocument,
} from "../../../src/core/contention/codec.ts";
import { acquisition, record } from "./fixtures.ts";

const durations = fc.oneof(fc.nat(100), fc.nat(2 ** 31 - 1));
const acquisitions: fc.Arbitrary<Acquisition> = fc.record({
  key: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  arrivedMs: fc.integer({ min: 0, max: 2 ** 45 }),
  waitMs: durations,
  holdMs: durations,
  attempts: fc.integer({ min: 1, max: 10_000 }),
  path: fc.constantFrom(...CONTENTION_PATHS),
  wasBlocked: fc.boolean(),
  isRefused: fc.boolean(),
});

describe("contention record", () => {
  test("decodes to what was encoded, in order of arrival", () => {
    fc.assert(
      fc.property(fc.array(acquisitions, { maxLength: 60 }), (all) => {
        const original = record({ acquisitions: all });
        const sorted = { ...original, acquisitions: all.toSorted((a, b) => a.arrivedMs - b.arrivedMs) };
        const stored = JSON.parse(JSON.stringify(encodeRecord(original)));
        expect(decodeRecord(stored)).toEqual(sorted);
        expect(readRecordDocument(JSON.parse(JSON.stringify(recordDocument(stored))))).toEqual(sorted);
      }),
    );
  });

  test("takes about 12 characters per acquisition of a burst", () => {
    const burst = Array.from({ length: 2_000 }, (_, at) =>
      acquisition({ key: at % 20, arrivedMs: 1_700_000_000_000 + Math.floor(at / 10), waitMs: at * 3, attempts: 4 }),
    );
    expect(encodeRecord(record({ acquisitions: burst })).acquisitions.length).toBeLessThan(12 * burst.length);
  });

  test("rejects damaged acquisitions and never returns others", () => {
    const all = Array.from({ length: 20 }, (_, at) => acquisition({ key: at % 3, arrivedMs: 1_000 + at, waitMs: at }));
    const stored = encodeRecord(record({ acquisitions: all }));
    const bytes = Buffer.from(stored.acquisitions, "base64");
    for (let length = 0; length < bytes.length; length++) {
      const cut = { ...stored, acquisitions: bytes.subarray(0, length).toString("base64") };
      expect(() => decodeRecord(cut), `cut after ${length}`).toThrow(DamagedRecordError);
    }
    for (const acquisitions of ["%%", "/////////////////////w==", `${stored.acquisitions}AAAA`, "A".repeat(10 ** 7)]) {
      expect(() => decodeRecord({ ...stored, acquisitions }), acquisitions.slice(0, 20)).toThrow(DamagedRecordError);
    }
  });

  test("rejects a text that is longer than the largest record before it is decoded", () => {
    const stored = encodeRecord(record());
    const text = "A".repeat(54 * RECORD_MAX);
    expect(() => decodeRecord({ ...stored, acquisitions: text })).toThrow("too long");
    expect(() => decodeRecord({ ...stored, acquisitions: text.slice(0, 53 * RECORD_MAX) })).not.toThrow("too long");
  });

  test.each([
    ["lock_busy_policy", "x".repeat(100), "x".repeat(101)],
    ["lock_ms", 86_400_000, 86_400_001],
  ])("limits `%s` of a document", (name, good, bad) => {
    const document = recordDocument(encodeRecord(record())) as { settings: object };
    const change = (value: unknown) =>
      name === "lock_ms" ? { lock_ms: value } : { settings: { ...document.settings, [name]: value } };
    expect(() => readRecordDocument({ ...document, ...change(good) })).not.toThrow();
    expect(() => readRecordDocument({ ...document, ...change(bad) })).toThrow(DamagedRecordError);
  });

  test("does not allocate for a forged count", () => {
    const forged = Buffer.from([0, 0xff, 0xff, 0xff, 0x7f]).toString("base64");
    expect(() => decodeRecord({ ...encodeRecord(record()), acquisitions: forged })).toThrow("too many acquisitions");
    expect(RECORD_MAX).toBeLessThan(100_000);
  });

  test("rejects flipped bits or decodes to bounded values", () => {
    const all = Array.from({ length: 10 }, (_, at) => acquisition({ key: at, arrivedMs: 1_000 + at }));
    const stored = encodeRecord(record({ acquisitions: all }));
    fc.assert(
      fc.property(fc.nat(10_000), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const bytes = Buffer.from(stored.acquisitions, "base64");
        bytes[at % bytes.length]! ^= flip;
        let decoded: ContentionRecord;
        try {
          decoded = decodeRecord({ ...stored, acquisitions: bytes.toString("base64") });
        } catch (error) {
          expect(error).toBeInstanceOf(DamagedRecordError);
          return;
        }
        expect(decoded.acquisitions.length).toBeLessThanOrEqual(RECORD_MAX);
        for (const { arrivedMs, attempts } of decoded.acquisitions) {
          expect(Number.isSafeInteger(arrivedMs) && attempts >= 1).toBe(true);
        }
      }),
    );
  });

  test.each([
    [{ version: 2 }, "version `2`"],
    [{ level: 99 }, "`level` is above"],
    [{ level: -1 }, "`level` is not a whole number"],
    [{ from_ms: "now" }, "`from_ms` is not a whole number"],
    [{ lock_ms: -1 }, "`lock_ms` is not a duration"],
    [{ settings: null }, "it is not an object"],
    [{ settings: { lock_busy_policy: 5, engine_wait_ms: 0, coalesce: true } }, "`settings` has a wrong type"],
    [{ acquisitions: 5 }, "`acquisitions` is not a text"],
  ])("rejects a document with %j", (change, message) => {
    const document = { ...recordDocument(encodeRecord(record())), ...change };
    expect(() => readRecordDocument(document)).toThrow(message);
  });

  test.each([null, [], "text", 5])("rejects %j instead of a document", (value) => {
    expect(() => readRecordDocument(value)).toThrow(DamagedRecordError);
  });
});
