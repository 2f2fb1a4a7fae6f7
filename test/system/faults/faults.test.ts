// The two-minute variant of `npm run faults`.
import { expect, test } from "vitest";
import { campaign, WORLDS } from "./campaign.ts";

const FOR_MS = 50_000;

// Concurrent, because each mostly waits for restarts.
test.concurrent.each(Object.keys(WORLDS) as (keyof typeof WORLDS)[])(
  "no acknowledged job is lost, ends twice or is damaged in silence by faults of the %s deployment",
  async (world) => {
    const lines: string[] = [];
    const report = await campaign({
      ...{ world, seed: SEED, forMs: FOR_MS, faults: null },
      print: (line) => lines.push(line),
    });
    const found = { lost: report.lost, duplicated: report.duplicated, silent: report.silent };
    expect(found, lines.join("\n")).toEqual({ lost: [], duplicated: [], silent: [] });
    expect(report.acknowledged).toBeGreaterThan(50);
    expect(Object.keys(report.faults).length).toBeGreaterThan(4);
  },
  600_000,
);

const SEED = 1;
