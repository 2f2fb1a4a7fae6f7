import { expect, test } from "vitest";
import { fanOut } from "./fan-out.ts";

const ITEMS = 10_000;

test("runs 10,000 items once each and takes the run lock once for many results", async () => {
  const report = await fanOut({ items: ITEMS, controls: 4, workers: 8 });
  const children = { count: ITEMS, spawned: ITEMS, open: 0, succeeded: ITEMS, failed: 0, cancelled: 0 };
  expect(report).toMatchObject({ state: "SUCCEEDED", output: { count: ITEMS }, children });
  // Workers may receive duplicates; every item runs, and every result is applied once.
  expect(report.distinct).toBe(ITEMS);
  expect(report.results).toBe(ITEMS);
  // Without batching the ratio is at least 1.
  expect(report.locks / report.results).toBeLessThanOrEqual(0.2);
}, 300_000);
