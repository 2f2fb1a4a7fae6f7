import type { ParkedFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Bench, type Suite } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** Effect of parked retries on healthy jobs, and how evenly the retries return. */
export const PARKED_SUITE: Suite = {
  title: `parked: 500 healthy jobs/s next to 10,000 retries parked for about 30 s`,
  notes: [
    "p95 of the healthy jobs without parked retries (the better of before and after), with all parked, and while they return",
    "peak:mean of the returns in bins of 50 ms, as measured at the worker and as planned in the records (ideal)",
  ],
  columns: [
    { key: "p95_none_ms", title: "p95 none ms", digits: 2 },
    { key: "p95_ms", title: "parked", digits: 2 },
    { key: "ratio", title: "× none", digits: 2 },
    { key: "p95_return_ms", title: "returning", digits: 2 },
    { key: "peak_to_mean", title: "peak:mean", digits: 2 },
    { key: "peak_to_mean_ideal", title: "ideal", digits: 2 },
    { key: "peak_ratio", title: "× ideal", digits: 2 },
    { key: "late_p95_ms", title: "late p95 ms", digits: 1 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= Math.min(ROUNDS_MAX, bench.rounds); round++) {
      for (const system of SYSTEMS) {
        const figures = await measure(bench, system);
        const { p95NoneMs, p95ParkedMs } = figures;
        bench.logProgress(
          `parked, round ${round}: ${system.name}: p95 ${p95NoneMs.toFixed(2)} → ${p95ParkedMs.toFixed(2)} ms`,
        );
        series.add(system.name, null, {
          p95_none_ms: p95NoneMs,
          p95_ms: p95ParkedMs,
          ratio: p95ParkedMs / p95NoneMs,
          p95_return_ms: figures.p95ReturnMs,
          peak_to_mean: figures.peakToMean,
          peak_to_mean_ideal: figures.peakToMeanIdeal,
          peak_ratio: figures.peakToMean / figures.peakToMeanIdeal,
          late_p95_ms: figures.lateP95Ms,
        });
        faults.push(...figures.faults.map((fault) => `${system.name} with parked retries: ${fault}`));
      }
    }
    const targets = SYSTEMS.flatMap(({ name }) => [
      atMost(`${name}: healthy p95 with parked retries ≤ 1.5 × without`, series.median(name, null, "ratio"), 1.5),
      atMost(`${name}: peak:mean of returning retries ≤ 1.5 × ideal`, series.median(name, null, "peak_ratio"), 1.5),
    ]);
    return { series, faults, targets };
  },
};

function measure({ children, isQuick }: Bench, system: System): Promise<ParkedFigures> {
  return withFreshServers(system, ({ backend }) =>
    children.run<ParkedFigures>({
      kind: "parked",
      backend,
      healthyPerSecond: 500,
      parked: isQuick ? 2_000 : 10_000,
      delayMs: isQuick ? 6_000 : 30_000,
      delayPct: isQuick ? 0.3 : 0.1,
      warmMs: isQuick ? 1_000 : 2_000,
      measureMs: isQuick ? 2_000 : 6_000,
    }),
  );
}

const ROUNDS_MAX = 3;
const SYSTEMS: readonly System[] = [
  { name: CLUSTER, kind: "cluster", concurrency: 1_000 },
  { name: EMBEDDED, kind: "embedded", concurrency: 1_000 },
];
