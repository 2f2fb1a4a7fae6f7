import { Series } from "../frame/series.ts";
import type { System } from "../frame/servers.ts";
import { atMost, type Suite } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED, jobFigures, measureLoop } from "./jobs.ts";

/** The cost of an active rollout: the same load with and without one, in turns. */
export const ROLLOUT_SUITE: Suite = {
  title: "rollout: jobs and runs of three steps with and without an active rollout (name, in flight)",
  notes: [
    "a rollout of `lock_busy` with default measures; a tenth of the units are in the treatment arm",
    "CPU of the Node process and of Redis and NATS per job or run; ratio to the same load without a rollout, per round",
  ],
  columns: [
    { key: "jobs_per_s", title: "per s", digits: 0 },
    { key: "cpu_us_per_job", title: "CPU µs", digits: 0 },
    { key: "cpu_ratio", title: "× CPU", digits: 3 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= bench.rounds; round++) {
      for (const { name, system, load } of CELLS) {
        const figures = await measureLoop(bench, system, load, IN_FLIGHT);
        const shown = jobFigures(figures);
        bench.logProgress(`rollout, round ${round}: ${name}: ${Math.round(shown.cpu_us_per_job ?? 0)} µs CPU`);
        series.add(name, IN_FLIGHT, shown);
        faults.push(...figures.faults.map((fault) => `${name}: ${fault}`));
      }
    }
    const targets = CELLS.filter(({ system }) => system.hasRollout).map(({ name, without }) => {
      series.compare(
        "cpu_us_per_job",
        "cpu_ratio",
        { name, inFlight: IN_FLIGHT },
        { name: without, inFlight: IN_FLIGHT },
      );
      return atMost(`${name}: CPU ≤ 1.01 ×`, series.median(name, IN_FLIGHT, "cpu_ratio"), 1.01);
    });
    return { series, faults, targets };
  },
};

const IN_FLIGHT = 100;
const KINDS = [
  [CLUSTER, "cluster"],
  [EMBEDDED, "embedded"],
] as const;
const CELLS = (["jobs", "runs"] as const).flatMap((load) =>
  KINDS.flatMap(([title, kind]) =>
    [false, true].map((hasRollout) => {
      const without = `${load}, ${title}`;
      const system: System = { name: without, kind, concurrency: 100, hasRollout };
      return { name: hasRollout ? `${without}, rollout` : without, without, load, system };
    }),
  ),
);
