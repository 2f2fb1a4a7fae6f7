import type { SchedulesFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Bench, type Suite } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** A burst of schedules at one control process. */
export const SCHEDULES_SUITE: Suite = {
  title: "schedules: slots in the same second (name, schedules)",
  notes: [
    "of 10 tenants, with a jitter of up to a second; each slot starts a run of one delay step",
    "late: from the start of a slot, with its jitter, to the commit of its run",
  ],
  columns: [
    { key: "late_p50_ms", title: "late p50 ms", digits: 0 },
    { key: "late_p99_ms", title: "p99", digits: 0 },
    { key: "late_max_ms", title: "max", digits: 0 },
    { key: "start_us", title: "CPU µs/start", digits: 0 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    const schedules = bench.isQuick ? SCHEDULES_QUICK : SCHEDULES;
    for (let round = 1; round <= Math.min(ROUNDS_MAX, bench.rounds); round++) {
      for (const system of SYSTEMS) {
        const { name } = system;
        const figures = await measure(bench, system, schedules);
        const { lateP50Ms, lateP99Ms, lateMaxMs, startUs } = figures;
        bench.logProgress(`schedules, round ${round}: ${name}: at most ${Math.round(lateMaxMs)} ms late`);
        const values = { late_p50_ms: lateP50Ms, late_p99_ms: lateP99Ms, late_max_ms: lateMaxMs, start_us: startUs };
        series.add(name, schedules, values);
        faults.push(...figures.faults.map((fault) => `${name}: ${fault}`));
      }
    }
    const targets = SYSTEMS.map(({ name }) =>
      atMost(`${name}: each start at most 5 s late`, series.median(name, schedules, "late_max_ms") / 1_000, 5),
    );
    return { series, faults, targets };
  },
};

function measure({ children }: Bench, system: System, schedules: number): Promise<SchedulesFigures> {
  return withFreshServers(system, ({ backend, serverPids }) =>
    children.run<SchedulesFigures>({ kind: "schedules", backend, schedules, jitterMs: 1_000, serverPids }),
  );
}

const SCHEDULES = 10_000;
const SCHEDULES_QUICK = 1_000;
const ROUNDS_MAX = 3;
const SYSTEMS: readonly System[] = [
  { name: CLUSTER, kind: "cluster", concurrency: 1 },
  { name: EMBEDDED, kind: "embedded", concurrency: 1 },
];
