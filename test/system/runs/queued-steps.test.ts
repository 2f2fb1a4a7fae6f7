import { expect, test } from "vitest";
import { firstBehind } from "./queued-steps.ts";

test.each(["embedded", "NATS + Redis"] as const)(
  "%s: 100,000 steps of one tenant that wait do not delay the first of another",
  async (kind) => {
    const { queued, before } = await firstBehind(kind, 10, 10_000);
    expect(queued).toBe(100_000);
    // Those that were with the workers, and those that took their places while the other's was written.
    expect(before).toBeLessThan(32);
  },
  300_000,
);
