/** Arbitraries of the retry tests: statements, and the ways in which code wraps, loses and ships errors. */
import fc from "fast-check";
import { fromWire, permanent, retryAfter, toWire } from "../../../src/core/retry/intent.ts";
import type { Policy } from "../../../src/core/retry/policies.ts";
import { RETRY_CLASSES } from "../../../src/core/retry/retry-classes.ts";

export const anyClass = fc.constantFrom(...RETRY_CLASSES);

export const anyDelayMs = fc.oneof(fc.nat(), fc.double({ min: 0, max: 1e6, noNaN: true }));

export const anyRetryable = fc
  .tuple(fc.string(), anyDelayMs, anyClass)
  .map(([message, delayMs, retryClass]) => retryAfter(new Error(message), delayMs, retryClass));

export const anyPermanent = fc.string().map((message) => permanent(new Error(message)));

export const anyStatement = fc.oneof(anyRetryable, anyPermanent);

/** A way in which code passes on a caught error without a statement of its own. */
export type Wrapping = (error: unknown) => Promise<unknown>;

class ForeignError extends TypeError {
  readonly code = "E_FOREIGN";
}

export const WRAPPINGS: Readonly<Record<string, Wrapping>> = {
  cause: async (error) => new Error("outer", { cause: error }),
  "cause of a foreign class": async (error) => new ForeignError("outer", { cause: error }),
  "cause of a plain object": async (error) => ({ cause: error }),
  aggregate: async (error) => new AggregateError([new Error("noise"), "noise", null, error], "several"),
  "aggregate beside a cause": async (error) => new AggregateError([error], "several", { cause: new Error("noise") }),
  "Promise.any": (error) => caught(() => Promise.any([Promise.reject(error), Promise.reject(new Error("noise"))])),
  "re-throw": (error) =>
    caught(async () => {
      try {
        await Promise.reject(error);
      } catch (seen) {
        await Promise.resolve();
        throw seen;
      }
    }),
  "re-throw in a new error": (error) =>
    caught(async () => {
      try {
        await Promise.reject(error);
      } catch (seen) {
        throw new Error("while working", { cause: seen });
      }
    }),
  wire: async (error) => fromWire(JSON.parse(JSON.stringify(toWire(error)))),
  "wire, not restored": async (error) => JSON.parse(JSON.stringify(toWire(error))),
};

export const anyWrappings = fc.array(fc.constantFrom(...Object.values(WRAPPINGS)), { maxLength: 30 });

export async function wrapAll(error: unknown, wrappings: readonly Wrapping[]): Promise<unknown> {
  let wrapped = error;
  for (const wrapping of wrappings) wrapped = await wrapping(wrapped);
  return wrapped;
}

export async function caught(work: () => Promise<unknown>): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("the work should have failed");
}

/** Seeded, so that statistics are reproducible. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
    return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
  };
}

export const anyUnit = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

/** Small and large attempts. */
export const anyAttempt = fc.oneof(fc.integer({ min: 1, max: 80 }), fc.integer({ min: 1, max: 1e9 }));

const anyBaseMs = fc.integer({ min: 2, max: 60_000 });
const anyRange = fc.tuple(anyBaseMs, fc.integer({ min: 1, max: 3_600_000 }));

/** Policies whose jitter must hold at every attempt. */
export const anyJittered: fc.Arbitrary<Policy> = fc.oneof(
  fc
    .tuple(anyBaseMs, fc.integer({ min: 5_000, max: 100_000 }))
    .map(([baseMs, pct]): Policy => ({ kind: "bounded", baseMs, pct: pct / 10_000 })),
  fc.tuple(anyRange, anyUnit).map(([[baseMs, over], share]): Policy => {
    const maxMs = baseMs + over;
    const floorMs = Math.floor(share * (Math.min(2 * baseMs, maxMs) - 1));
    return { kind: "full", baseMs, maxMs, floorMs };
  }),
  anyRange.map(([baseMs, over]): Policy => ({ kind: "equal", baseMs, maxMs: baseMs + over })),
  anyRange.map(([baseMs, over]): Policy => ({ kind: "decorrelated", baseMs, maxMs: baseMs + over })),
);

export const anyPolicy: fc.Arbitrary<Policy> = fc.oneof(
  anyJittered,
  anyBaseMs.map((delayMs): Policy => ({ kind: "fixed", delayMs })),
  fc.tuple(anyRange, fc.integer({ min: 0, max: 5_000 })).map(
    ([[baseMs, over], jitterMs]): Policy => ({
      kind: "capped_exponential",
      baseMs,
      maxMs: baseMs + over,
      jitterMs,
    }),
  ),
);
