import type { LatenessFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Bench, type Suite } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** How late due work fires while the system is fully loaded. */
export const LATENESS_SUITE: Suite = {
  title: "lateness: due work under full load (name, jobs in flight)",
  notes: [
    "a closed loop of jobs is the load; 50 probes per second wait 3 to 6 s in the store, as leases, delays and deadlines do",
    "late: from the due time of a probe to its next attempt at a worker",
  ],
  columns: [
    { key: "jobs_per_s", title: "jobs/s", digits: 0 },
    { key: "late_p50_ms", title: "late p50 ms", digits: 1 },
    { key: "late_p99_ms", title: "p99", digits: 1 },
    { key: "late_max_ms", title: "max", digits: 1 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= Math.min(ROUNDS_MAX, bench.rounds); round++) {
      for (const inFlight of IN_FLIGHT) {
        for (const system of systemsAt(inFlight)) {
          const figures = await measure(bench, system, inFlight);
          const { lateP50Ms, lateP99Ms, lateMaxMs } = figures;
          const jobsPerS = figures.jobs / figures.seconds;
          bench.logProgress(
            `lateness, round ${round}: ${system.name}, ${inFlight} in flight: ${Math.round(jobsPerS)} jobs/s, p99 ${lateP99Ms.toFixed(1)} ms`,
          );
          series.add(system.name, inFlight, {
            jobs_per_s: jobsPerS,
            late_p50_ms: lateP50Ms,
            late_p99_ms: lateP99Ms,
            late_max_ms: lateMaxMs,
          });
          faults.push(...figures.faults.map((fault) => `${system.name}, ${inFlight} in flight: ${fault}`));
        }
      }
    }
    const targets = [EMBEDDED, CLUSTER].flatMap((name) =>
      IN_FLIGHT.map((inFlight) =>
        atMost(
          `${name}: lateness p99 at ${inFlight} in flight ≤ 1 s`,
          series.median(name, inFlight, "late_p99_ms") / 1_000,
          1,
        ),
      ),
    );
    return { series, faults, targets };
  },
};

function measure({ children, isQuick }: Bench, system: System, inFlight: number): Promise<LatenessFigures> {
  return withFreshServers(system, ({ backend }) =>
    children.run<LatenessFigures>({
      kind: "lateness",
      backend,
      inFlight,
      probesPerSecond: 50,
      delayMs: 3_000,
      warmMs: isQuick ? 1_000 : 8_000,
      measureMs: isQuick ? 5_000 : 20_000,
    }),
  );
}

const IN_FLIGHT = [100, 1_000];
const ROUNDS_MAX = 3;

const systemsAt = (inFlight: number): readonly System[] => [
  { name: CLUSTER, kind: "cluster", concurrency: inFlight },
  { name: EMBEDDED, kind: "embedded", concurrency: inFlight },
];
