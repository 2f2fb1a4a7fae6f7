import type { TimersFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { onFreshGround, type System } from "../frame/servers.ts";
import { atMost, type Bench, type Suite } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** Whether timers cost anything before they are due. */
export const TIMERS_SUITE: Suite = {
  title: "timers: CPU of a sweep that finds nothing due, with so many timers pending (name, pending)",
  notes: [
    "the timers are written first and not measured; then the world is opened anew, so that nothing is remembered of them",
    "CPU of the process and of its servers together, for one sweep; in the end one timer is due, and it alone must be found",
  ],
  columns: [
    { key: "sweep_ms", title: "CPU ms/sweep", digits: 3 },
    { key: "ratio", title: "× CPU at 1,000", digits: 2 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    const numbers = PENDING.filter((pending) => !bench.isQuick || pending <= PENDING_MAX_QUICK);
    for (let round = 1; round <= Math.min(ROUNDS_MAX, bench.rounds); round++) {
      for (const pending of numbers) {
        for (const system of SYSTEMS) {
          const figures = await measure(bench, system, pending);
          const sweepMs = figures.sweepUs / 1_000;
          bench.say(`timers, round ${round}: ${system.name}, ${pending} pending: ${sweepMs.toFixed(3)} ms a sweep`);
          series.add(system.name, pending, { sweep_ms: sweepMs });
          faults.push(...figures.faults.map((fault) => `${system.name}, ${pending} timers: ${fault}`));
        }
      }
    }
    for (const { name } of SYSTEMS) {
      for (const inFlight of numbers) {
        series.compare("sweep_ms", "ratio", { name, inFlight }, { name, inFlight: FEW });
      }
    }
    const most = numbers.at(-1) ?? FEW;
    const targets = SYSTEMS.map(({ name }) =>
      atMost(
        `${name}: CPU of a sweep past ${most.toLocaleString("en")} timers ≤ 1.5 × that past 1,000`,
        series.median(name, most, "ratio"),
        1.5,
      ),
    );
    return { series, faults, targets };
  },
};

function measure({ children, isQuick }: Bench, system: System, pending: number): Promise<TimersFigures> {
  return onFreshGround(system, ({ side, serverPids }) =>
    children.run<TimersFigures>({
      kind: "timers",
      side,
      pending,
      rounds: isQuick ? 2 : 4,
      // The servers' CPU is counted in hundredths of a second.
      sweeps: isQuick ? 1_000 : 4_000,
      serverPids,
    }),
  );
}

const FEW = 1_000;
const PENDING = [FEW, 100_000, 1_000_000];
const PENDING_MAX_QUICK = 100_000;
/** Writing a million timers takes longer than measuring. */
const ROUNDS_MAX = 3;
const SYSTEMS: readonly System[] = [
  { name: CLUSTER, kind: "cluster", concurrency: 1 },
  { name: EMBEDDED, kind: "embedded", concurrency: 1 },
];
