import { expect, test } from "vitest";
import { fanOut } from "./fan-out.ts";

const ITEMS = 10_000;

test("a list of 10,000 items, 4 control processes, 8 workers: each item once, and the run's lock is taken for many results at a time", async () => {
  const report = await fanOut({ items: ITEMS, controls: 4, workers: 8 });
  const children = { count: ITEMS, spawned: ITEMS, open: 0, succeeded: ITEMS, failed: 0, cancelled: 0 };
  expect(report).toMatchObject({ state: "SUCCEEDED", output: { count: ITEMS }, children });
  // A worker may be given the same again; nobody is forgotten, and every result is applied once.
  expect(report.distinct).toBe(ITEMS);
  expect(report.results).toBe(ITEMS);
  // One result at a time would be 1 or more.
  expect(report.locks / report.results).toBeLessThanOrEqual(0.2);
}, 300_000);
