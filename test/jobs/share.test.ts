import fc from "fast-check";
import { expect, test } from "vitest";
import { shareOut } from "../../src/jobs/share.ts";

const orgs = fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), fc.integer({ min: 1, max: 50 }), { maxKeys: 8 });

test("all the room is used while anybody waits, and nobody gets more than waits", () => {
  fc.assert(
    fc.property(orgs, fc.nat(200), fc.string(), (waits, room, last) => {
      const waiting = new Map(Object.entries(waits));
      const { shares } = shareOut(waiting, room, last);
      const total = [...waiting.values()].reduce((sum, count) => sum + count, 0);
      expect([...shares.values()].reduce((sum, count) => sum + count, 0)).toBe(Math.min(room, total));
      for (const [org, share] of shares) expect(share).toBeLessThanOrEqual(waiting.get(org) ?? 0);
    }),
  );
});

test("fair: nobody who still waits got two less than another", () => {
  fc.assert(
    fc.property(orgs, fc.nat(200), fc.string(), (waits, room, last) => {
      const waiting = new Map(Object.entries(waits));
      const { shares } = shareOut(waiting, room, last);
      const most = Math.max(0, ...shares.values());
      for (const [org, count] of waiting) {
        const share = shares.get(org) ?? 0;
        if (share < count) expect(most - share).toBeLessThanOrEqual(1);
      }
    }),
  );
});

test("L40: room for one at a time goes round, however long one org's queue is", () => {
  const served: string[] = [];
  let last = "";
  for (let round = 0; round < 6; round++) {
    const turn = shareOut(
      new Map([
        ["a", 100_000],
        ["b", 1],
        ["c", 5],
      ]),
      1,
      last,
    );
    last = turn.last;
    served.push(last);
  }
  expect(served).toEqual(["a", "b", "c", "a", "b", "c"]);
});
