import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { chainOf, NODES_MAX } from "../../../src/core/retry/error-chain.ts";
import { intentOf, isPermanent, permanent, retryAfter, retryDelay } from "../../../src/core/retry/intent.ts";

test("visits outer errors first, the cause before the errors, each object once", () => {
  const deepest = new Error("deepest");
  const cause = new Error("cause", { cause: deepest });
  const member = { errors: [deepest, cause] };
  const root = new AggregateError([null, "text", member, cause], "root", { cause });
  deepest.cause = root;
  const order: object[] = [root, cause, member, deepest];
  expect([...chainOf(root)].map((node) => order.indexOf(node))).toEqual([0, 1, 2, 3]);
  expect([...chainOf("text")]).toEqual([]);
});

describe("a chain terminates", () => {
  test("when it is cyclic", () => {
    const self = new Error("self");
    self.cause = self;
    const ping = new Error("ping");
    const pong = new AggregateError([ping, self], "pong", { cause: ping });
    ping.cause = pong;
    for (const error of [self, ping, pong]) {
      expect(intentOf(error)).toEqual({ kind: "unclassified" });
      expect(retryDelay(error)).toBeUndefined();
    }
    pong.errors.push(permanent("at last"));
    expect(isPermanent(ping)).toBe(true);
  });

  test("when it never repeats", () => {
    let made = 0;
    const endless = (): object => ({
      get cause() {
        made += 1;
        return endless();
      },
    });
    expect(intentOf(endless())).toEqual({ kind: "unclassified" });
    expect(made).toBeLessThanOrEqual(2 * NODES_MAX);
  });

  test("when it is absurdly wide, at every level", () => {
    let looked = 0;
    const errors = new Proxy([], {
      get: (_, key) => {
        looked += 1;
        return key === "length" ? Number.POSITIVE_INFINITY : wide();
      },
    });
    const wide = (): object => ({ errors });
    expect(intentOf(wide())).toEqual({ kind: "unclassified" });
    expect(looked).toBeLessThanOrEqual(4 * NODES_MAX);
    expect(intentOf({ errors: new Array(2 ** 32 - 1) })).toEqual({ kind: "unclassified" });
  });
});

describe("nothing throws", () => {
  test("on proxies and getters that do", () => {
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    const revokedArray = Proxy.revocable([], {});
    revokedArray.revoke();
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error("no");
        },
      },
    );
    const oddLength = { errors: new Proxy([], { get: () => Symbol("length") }) };
    for (const error of [revoked.proxy, hostile, oddLength, { errors: revokedArray.proxy }, { cause: hostile }]) {
      expect(intentOf(error)).toEqual({ kind: "unclassified" });
      expect(() => retryAfter(error, 1)).not.toThrow();
      expect(intentOf(permanent(error))).toEqual({ kind: "permanent" });
    }
  });

  test("on any value; without a statement it is unclassified", () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true, withBigInt: true }), (thrown) => {
        expect(intentOf(thrown)).toEqual({ kind: "unclassified" });
        expect(retryDelay(retryAfter(thrown, 3))).toBe(3);
      }),
    );
  });
});
