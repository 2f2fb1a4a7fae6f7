import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  fromWire,
  type Intent,
  intentOf,
  isPermanent,
  permanent,
  retryAfter,
  retryClassOf,
  retryDelay,
  toWire,
  WIRE_LIMITS,
  type WireError,
} from "../../../src/core/retry/intent.ts";
import { anyStatement, anyWrappings, wrapAll } from "./arbitraries.ts";

describe("toWire", () => {
  test("is plain JSON with name, message, code, intent, cause and errors", () => {
    const cause = Object.assign(new TypeError("refused"), { code: "ECONNREFUSED" });
    const error = new AggregateError([Object.assign(new Error("no"), { code: 111 }), "text"], "several", {
      cause: retryAfter(cause, 500, "store_unavailable"),
    });
    const intent = { retryDelayMs: 500, retryClass: "store_unavailable" };
    expect(toWire(error)).toStrictEqual({
      name: "AggregateError",
      message: "several",
      ...intent,
      cause: {
        name: "RetryableError",
        message: "refused",
        ...intent,
        cause: { name: "TypeError", message: "refused", code: "ECONNREFUSED" },
      },
      errors: [
        { name: "Error", message: "no", code: 111 },
        { name: "Error", message: "text" },
      ],
    });
    expect(toWire(permanent("never"))).toStrictEqual({
      name: "PermanentError",
      message: "never",
      retryNever: true,
      cause: { name: "Error", message: "never" },
    });
  });

  test("each error keeps its own statement", () => {
    const { retryDelayMs, retryNever, errors } = toWire(new AggregateError([null, retryAfter("a", 5), permanent("b")]));
    expect({ retryDelayMs, retryNever }).toEqual({ retryDelayMs: 5, retryNever: undefined });
    expect(errors?.map(intentOf)).toEqual([
      { kind: "retry", delayMs: 5, retryClass: "unclassified" },
      { kind: "permanent" },
    ]);
  });

  test("drops malformed parts", () => {
    const odd = { name: 7, message: ["no"], code: { secret: 1 }, cause: null, errors: "none" };
    expect(toWire(odd)).toStrictEqual({ name: "Error", message: "error without a message" });
    expect(toWire({ name: "", message: "m", code: Number.NaN, errors: [] })).toStrictEqual({
      name: "Error",
      message: "m",
    });
    expect(toWire(undefined)).toStrictEqual({ name: "Error", message: "undefined" });
  });

  test("cuts long strings without splitting characters", () => {
    const { message, name, code } = toWire(
      Object.assign(new Error("m".repeat(9_999)), { name: "n".repeat(999), code: "c".repeat(999) }),
    );
    expect(message).toBe(`${"m".repeat(WIRE_LIMITS.messageLength - 1)}…`);
    expect(name).toHaveLength(WIRE_LIMITS.nameLength);
    expect(code).toHaveLength(WIRE_LIMITS.nameLength);
    const exact = "m".repeat(WIRE_LIMITS.messageLength);
    expect(toWire(new Error(exact)).message).toBe(exact);
    const astral = `${"m".repeat(WIRE_LIMITS.messageLength - 2)}😀😀`;
    expect(toWire(new Error(astral)).message).toBe(`${"m".repeat(WIRE_LIMITS.messageLength - 2)}…`);
  });

  test("bounds depth, number and size, and keeps the intent of truncated parts", () => {
    // Every character takes six in JSON: the worst case.
    const noise = (count: number) => Array.from({ length: count }, () => new Error("\u0000".repeat(9_999)));
    let deep: unknown = permanent(retryAfter("core", 40, "lock_busy"));
    for (let depth = 0; depth < 1_000; depth += 1) {
      deep = depth % 2 === 0 ? new Error("outer", { cause: deep }) : new AggregateError([deep, ...noise(2)]);
    }
    const wide = new AggregateError(noise(1_000), "wide", { cause: deep });
    for (const error of [deep, wide]) {
      const wire = toWire(error);
      expect(depthOf(wire)).toBeLessThanOrEqual(WIRE_LIMITS.depth);
      expect(nodesOf(wire)).toBeLessThanOrEqual(WIRE_LIMITS.nodes);
      expect(JSON.stringify(wire).length).toBeLessThan(512 * 1_024);
      expect(isPermanent(wire)).toBe(true);
      expect(retryDelay(wire)).toBe(40);
      expect(retryClassOf(wire)).toBe("lock_busy");
    }
    expect(depthOf(toWire(deep))).toBe(WIRE_LIMITS.depth);
    expect(nodesOf(toWire(wide))).toBe(WIRE_LIMITS.nodes);
  });

  test("cuts a cycle where it closes", () => {
    const error = retryAfter("a", 1);
    const outer = new AggregateError([error, error], "b", { cause: error });
    error.cause = outer;
    expect(nodesOf(toWire(outer))).toBe(2);
    expect(() => JSON.stringify(toWire(outer))).not.toThrow();
  });

  test("never throws, and is always JSON of itself", () => {
    const thrown = fc.oneof(
      fc.anything({ withNullPrototype: true, withBigInt: true, withSparseArray: true }),
      fc.record({ name: fc.anything(), message: fc.anything(), cause: fc.anything(), errors: fc.array(fc.anything()) }),
    );
    fc.assert(
      fc.property(thrown, (value) => {
        const wire = toWire(value);
        expect(JSON.parse(JSON.stringify(wire))).toStrictEqual(wire);
      }),
    );
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error("no");
        },
      },
    );
    expect(toWire(hostile)).toStrictEqual({ name: "Error", message: "error without a message" });
  });
});

describe("fromWire", () => {
  test("restores Error instances", () => {
    const original = new AggregateError([Object.assign(new Error("in"), { code: "E1" })], "several", {
      cause: retryAfter(new RangeError("deep"), 7, "no_worker"),
    });
    const restored = fromWire(JSON.parse(JSON.stringify(toWire(original)))) as AggregateError;
    expect(restored).toBeInstanceOf(AggregateError);
    expect(restored.errors[0]).toBeInstanceOf(Error);
    expect(restored.errors[0]).toMatchObject({ name: "Error", message: "in", code: "E1" });
    expect(restored.cause).toMatchObject({ name: "RetryableError", retryClass: "no_worker" });
    expect((restored.cause as { retryDelay(): number }).retryDelay()).toBe(7);
    expect(toWire(restored)).toStrictEqual(toWire(original));
    expect("retryNever" in restored).toBe(false);
  });

  test("a plain error still states nothing", () => {
    const restored = fromWire(toWire(new Error("plain")));
    expect(restored).not.toHaveProperty("retryDelay");
    expect(restored).not.toHaveProperty("cause");
    expect(restored).not.toHaveProperty("code");
    expect(intentOf(restored)).toEqual({ kind: "unclassified" });
  });

  test("any other value becomes a retryable error and never throws", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (json) => {
        const restored = fromWire(json);
        expect(restored).toBeInstanceOf(Error);
        expect(intentOf(restored)).toEqual({ kind: "unclassified" });
      }),
    );
    expect(fromWire("it broke").message).toBe("it broke");
    expect(fromWire({ name: "TypeError", message: "m", stack: "secret" })).toMatchObject({ name: "TypeError" });
  });

  test("all readers agree before and after, for any chain", async () => {
    const property = fc.asyncProperty(anyStatement, anyStatement, anyWrappings, async (inner, outer, wrappings) => {
      const mixed = new AggregateError([await wrapAll(inner, wrappings), new Error("x", { cause: outer })]);
      for (const other of [toWire(mixed), fromWire(JSON.parse(JSON.stringify(toWire(mixed))))]) {
        expect(intentOf(other)).toEqual(intentOf(mixed));
        expect(retryDelay(other)).toBe(retryDelay(mixed));
        expect(retryClassOf(other)).toBe(retryClassOf(mixed));
        expect(isPermanent(other)).toBe(isPermanent(mixed));
      }
    });
    await fc.assert(property);
  });
});

describe("JSON.stringify of the error itself", () => {
  test("keeps the intent of an error that states it, also when nested", () => {
    const error = retryAfter(new Error("x"), 500, "lock_busy");
    const message = JSON.parse(JSON.stringify({ job: "j1", error, fatal: permanent("y") }));
    expect(intentOf(message.error)).toEqual({ kind: "retry", delayMs: 500, retryClass: "lock_busy" });
    expect(isPermanent(message.fatal)).toBe(true);
    expect(message.error.cause).toEqual({ name: "Error", message: "x" });
    expect(JSON.stringify(fromWire(message.error))).toBe(JSON.stringify(error));
  });
});

describe("another process", () => {
  test("reads, wraps, re-throws and returns the same intent", async () => {
    const errors = fc.sample(anyStatement, { numRuns: 200, seed: 1 });
    // Every other error is sent without `toWire`.
    const lines = errors.map((error, index) =>
      JSON.stringify(index % 2 === 0 ? error : toWire(new Error("outer", { cause: error }))),
    );
    const replies = await relayed(lines);
    expect(replies).toHaveLength(errors.length);
    for (const [index, error] of errors.entries()) {
      expect(replies[index]?.read).toEqual(intentOf(error));
      expect(intentOf(replies[index]?.error)).toEqual(intentOf(error));
      expect(intentOf(fromWire(replies[index]?.error))).toEqual(intentOf(error));
    }
  });
});

async function relayed(lines: readonly string[]): Promise<{ read: Intent; error: WireError }[]> {
  const relay = fileURLToPath(new URL("fixtures/relay.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", relay], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(`${lines.join("\n")}\n`);
  const [output, [exitCode]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  expect(exitCode).toBe(0);
  return output
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

function childrenOf(wire: WireError): WireError[] {
  return [...(wire.cause ? [wire.cause] : []), ...(wire.errors ?? [])];
}

function depthOf(wire: WireError): number {
  return 1 + Math.max(0, ...childrenOf(wire).map(depthOf));
}

function nodesOf(wire: WireError): number {
  return 1 + childrenOf(wire).reduce((sum, child) => sum + nodesOf(child), 0);
}
