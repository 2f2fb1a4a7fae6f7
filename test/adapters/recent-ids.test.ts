import { describe, expect, it } from "vitest";
import { RecentIds } from "../../src/adapters/recent-ids.ts";

describe("RecentIds", () => {
  it("keeps an id for at least half of the period, and never longer than the period", () => {
    const recent = new RecentIds(1_000, 100);
    recent.add("a", 400);
    expect(recent.has("a", 899)).toBe(true);
    recent.add("b", 950);
    expect(recent.has("a", 1_000)).toBe(true);
    expect(recent.has("b", 1_449)).toBe(true);
    expect(recent.has("a", 1_600)).toBe(false);
    expect(recent.has("b", 2_700)).toBe(false);
  });

  it("evicts the oldest ids beyond the limit", () => {
    const recent = new RecentIds(1_000_000, 100);
    for (let index = 0; index < 1_000; index++) recent.add(`id-${index}`, 1);
    expect(recent.has("id-999", 1)).toBe(true);
    expect(recent.has("id-955", 1)).toBe(true);
    expect(recent.has("id-0", 1)).toBe(false);
  });
});
