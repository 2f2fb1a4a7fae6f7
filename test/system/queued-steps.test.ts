import { expect, test } from "vitest";
import { firstBehind } from "./queued-steps.ts";

test("10,000 steps of one tenant that wait do not delay the first of another", async () => {
  const { queued, before } = await firstBehind(1, 10_000);
  expect(queued).toBe(10_000);
  // Those that were with the workers, and those that took their places while the other's was written.
  expect(before).toBeLessThan(32);
}, 300_000);
