import { expect, test } from "vitest";
import { stepsBefore } from "./queued-steps.ts";

test.each(["embedded", "NATS + Redis"] as const)(
  "%s: 100,000 queued steps of one tenant do not delay the first step of another",
  async (kind) => {
    const { queued, before } = await stepsBefore(kind, 10, 10_000);
    expect(queued).toBe(100_000);
    // The steps in flight, and those dispatched while the other tenant's step was written.
    expect(before).toBeLessThan(32);
  },
  300_000,
);
