import type { TimersFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Bench, type Suite } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** Cost of pending timers and schedules that are not due. */
export const TIMERS_SUITE: Suite = {
  title: "timers: CPU of a sweep without due timers (name, pending timers and schedules)",
  notes: [
    "timers and schedules, half of each, are written first, without measurement; then the world is reopened with empty caches",
    "CPU of the process and of its servers per sweep; at the end one timer is due and must be the only one that fires",
  ],
  columns: [
    { key: "sweep_ms", title: "CPU ms/sweep", digits: 3 },
    { key: "ratio", title: "× CPU at 1,000", digits: 2 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    const most = bench.isQuick ? MANY_QUICK : MANY;
    const sizes = [FEW, most];
    for (let round = 1; round <= Math.min(ROUNDS_MAX, bench.rounds); round++) {
      for (const pending of sizes) {
        for (const system of SYSTEMS) {
          const figures = await measure(bench, system, pending);
          const sweepMs = figures.sweepUs / 1_000;
          bench.logProgress(
            `timers, round ${round}: ${system.name}, ${pending} pending: ${sweepMs.toFixed(3)} ms per sweep`,
          );
          series.add(system.name, pending, { sweep_ms: sweepMs });
          faults.push(...figures.faults.map((fault) => `${system.name}, ${pending} pending: ${fault}`));
        }
      }
    }
    for (const { name } of SYSTEMS) {
      for (const inFlight of sizes) {
        series.compare("sweep_ms", "ratio", { name, inFlight }, { name, inFlight: FEW });
      }
    }
    const targets = SYSTEMS.map(({ name }) =>
      atMost(
        `${name}: CPU per sweep with ${most.toLocaleString("en")} timers and schedules ≤ 1.5 × 1,000`,
        series.median(name, most, "ratio"),
        1.5,
      ),
    );
    return { series, faults, targets };
  },
};

function measure({ children, isQuick }: Bench, system: System, pending: number): Promise<TimersFigures> {
  return withFreshServers(system, ({ backend, serverPids }) =>
    children.run<TimersFigures>({
      kind: "timers",
      backend,
      pending,
      rounds: isQuick ? 2 : 4,
      // Enough sweeps for the server CPU ticks of 10 ms.
      sweeps: isQuick ? 1_000 : 4_000,
      serverPids,
    }),
  );
}

const FEW = 1_000;
const MANY = 1_000_000;
const MANY_QUICK = 100_000;
/** Writing a million records takes longer than measuring. */
const ROUNDS_MAX = 3;
const SYSTEMS: readonly System[] = [
  { name: CLUSTER, kind: "cluster", concurrency: 1 },
  { name: EMBEDDED, kind: "embedded", concurrency: 1 },
];
