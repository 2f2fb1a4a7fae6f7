import fc from "fast-check";
import { expect, test } from "vitest";
import { fairShare, type Turn } from "../../../src/core/jobs/fair-share.ts";

const names = fc.stringMatching(/^[a-z]{1,3}$/);
const orgs = fc.dictionary(names, fc.integer({ min: 1, max: 50 }), { maxKeys: 8 });
const turns = fc.record({ org: names, taken: fc.nat(5) });
const weights = fc.func(fc.integer({ min: 1, max: 5 }));
const START: Turn = { org: "", taken: 0 };

test("uses all capacity while jobs are queued, and gives no tenant more than it has queued", () => {
  fc.assert(
    fc.property(orgs, fc.nat(200), turns, weights, (waits, room, turn, weightOf) => {
      const waiting = new Map(Object.entries(waits));
      const { shares } = fairShare(waiting, room, turn, weightOf);
      const total = [...waiting.values()].reduce((sum, count) => sum + count, 0);
      expect([...shares.values()].reduce((sum, count) => sum + count, 0)).toBe(Math.min(room, total));
      for (const [org, share] of shares) expect(share).toBeLessThanOrEqual(waiting.get(org) ?? 0);
    }),
  );
});

test("no tenant with queued jobs is two turns behind another, for any weights", () => {
  fc.assert(
    fc.property(orgs, fc.nat(200), turns, weights, (waits, room, turn, weightOf) => {
      const waiting = new Map(Object.entries(waits));
      const { shares } = fairShare(waiting, room, turn, weightOf);
      const turnsOf = (org: string) => (shares.get(org) ?? 0) / weightOf(org);
      const most = Math.max(0, ...[...shares.keys()].map(turnsOf));
      for (const [org, count] of waiting) {
        if ((shares.get(org) ?? 0) < count) expect(most - turnsOf(org)).toBeLessThan(2);
      }
    }),
  );
});

test("without weights no tenant with queued jobs is two jobs behind another", () => {
  fc.assert(
    fc.property(orgs, fc.nat(200), names, (waits, room, org) => {
      const waiting = new Map(Object.entries(waits));
      const { shares } = fairShare(waiting, room, { org, taken: 1 });
      const most = Math.max(0, ...shares.values());
      for (const [name, count] of waiting) {
        const share = shares.get(name) ?? 0;
        if (share < count) expect(most - share).toBeLessThanOrEqual(1);
      }
    }),
  );
});

function served(rounds: number, room: number, weightOf?: (org: string) => number): string {
  const waiting = new Map([
    ["a", 100_000],
    ["b", 1_000],
    ["c", 5_000],
  ]);
  let turn = START;
  let text = "";
  for (let round = 0; round < rounds; round++) {
    const shared = fairShare(waiting, room, turn, weightOf);
    turn = shared.turn;
    for (const [org, count] of shared.shares) text += org.repeat(count);
  }
  return text;
}

test("L40: a capacity of one rotates between tenants, however long one queue is", () => {
  expect(served(6, 1)).toBe("abcabc");
});

test("weights hold for a capacity of one and for any other", () => {
  const weightOf = (org: string) => (org === "b" ? 3 : 1);
  expect(served(10, 1, weightOf)).toBe("abbbcabbbc");
  for (const room of [2, 3, 7, 256]) {
    const text = served(100, room, weightOf);
    const share = (org: string) => text.split(org).length - 1;
    expect(Math.abs(share("b") - 3 * share("a"))).toBeLessThanOrEqual(3);
    expect(Math.abs(share("c") - share("a"))).toBeLessThanOrEqual(1);
  }
});

test("a tenant without jobs loses its turn to the next by name", () => {
  const waiting = new Map([
    ["a", 1],
    ["c", 1],
  ]);
  expect(fairShare(waiting, 1, { org: "b", taken: 0 }).turn).toEqual({ org: "c", taken: 1 });
  expect(fairShare(waiting, 1, { org: "c", taken: 1 }).turn).toEqual({ org: "a", taken: 1 });
  expect(fairShare(new Map(), 5, { org: "c", taken: 1 })).toEqual({ shares: new Map(), turn: { org: "c", taken: 1 } });
});
