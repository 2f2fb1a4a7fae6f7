import { defaultSettings } from "../../src/config/config.ts";
import type { LoopFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Bench, type Suite } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED, summary, timesOf } from "./jobs.ts";

/** Cost of a job by the length of the backlog. */
export const BACKLOG_SUITE: Suite = {
  title: "backlog: CPU per job by backlog length (name, backlog)",
  notes: [
    "the backlog is written first, without measurement; then one job is submitted for each that ends, so its length is constant",
    "a measured job is the same work at every length: submitted to the backlog, taken from its head, processed, ended",
  ],
  columns: [
    { key: "jobs_per_s", title: "jobs/s", digits: 0 },
    { key: "cpu_us_per_job", title: "CPU µs/job", digits: 0 },
    { key: "cpu_us_client", title: "client", digits: 0 },
    { key: "cpu_us_server", title: "server", digits: 0 },
    { key: "ratio", title: "× CPU at 1,000", digits: 2 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    const lengths = LENGTHS.filter((length) => !bench.isQuick || length <= LENGTH_MAX_QUICK);
    for (let round = 1; round <= bench.rounds; round++) {
      for (const length of lengths) {
        for (const system of SYSTEMS) {
          const figures = await measure(bench, system, length);
          bench.logProgress(`backlog, round ${round}: ${summary(system, length, figures)}`);
          const { jobs, seconds, clientUs, serverUs } = figures;
          series.add(system.name, length, {
            jobs_per_s: jobs / seconds,
            cpu_us_per_job: (clientUs + serverUs) / jobs,
            cpu_us_client: clientUs / jobs,
            cpu_us_server: serverUs / jobs,
          });
          faults.push(...figures.faults.map((fault) => `${system.name}, backlog of ${length}: ${fault}`));
        }
      }
    }
    for (const { name } of SYSTEMS) {
      for (const inFlight of lengths) {
        series.compare("cpu_us_per_job", "ratio", { name, inFlight }, { name, inFlight: SHORT });
      }
    }
    const longest = lengths.at(-1) ?? SHORT;
    const targets = SYSTEMS.map(({ name }) =>
      atMost(
        `${name}: CPU per job at ${longest.toLocaleString("en")} ≤ 1.25 × 1,000`,
        series.median(name, longest, "ratio"),
        1.25,
      ),
    );
    return { series, faults, targets };
  },
};

function measure({ children, isQuick }: Bench, system: System, length: number): Promise<LoopFigures> {
  return withFreshServers(system, ({ backend, serverPids }) =>
    children.run<LoopFigures>({
      kind: "loop",
      load: "jobs",
      backend,
      role: "all",
      // The dispatch window is with the workers; the rest is the backlog.
      inFlight: length + defaultSettings().dispatch.windowMax,
      prefilled: true,
      serverPids,
      clientPids: [],
      ...timesOf(isQuick),
    }),
  );
}

const SHORT = 1_000;
const LENGTHS = [SHORT, 100_000, 1_000_000];
const LENGTH_MAX_QUICK = 100_000;
const SYSTEMS: readonly System[] = [
  { name: CLUSTER, kind: "cluster", concurrency: 1_000 },
  { name: EMBEDDED, kind: "embedded", concurrency: 1_000 },
];
