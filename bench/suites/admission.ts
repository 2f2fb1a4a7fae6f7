import { Redis } from "ioredis";
import { ADMISSION_STRATEGIES, type AdmissionFigures, type AdmissionStrategy, GO_CHANNEL } from "../child/task.ts";
import { percentile } from "../frame/figures.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Bench, type Suite, type Target } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** Latency of simultaneous run starts at a low limit: atomic admission and the polled lock. */
export const ADMISSION_SUITE: Suite = {
  title: "admission: 100 simultaneous starts of an org with a limit of 2 open runs (name, processes)",
  notes: [
    "the runs stay open, so all but two starts are rejected; latency from the call to its outcome",
    "200: admitted; 429: limit reached; 503: admission lock busy for 2 s (polled only)",
    "polled: the baseline lock, polled every 10 ms or every 5 to 15 ms; ratio: p95 over the p95 of atomic",
  ],
  columns: [
    { key: "p50_ms", title: "p50 ms", digits: 2 },
    { key: "p95_ms", title: "p95 ms", digits: 2 },
    { key: "max_ms", title: "max ms", digits: 2 },
    { key: "status_200", title: "200", digits: 0 },
    { key: "status_429", title: "429", digits: 0 },
    { key: "status_503", title: "503", digits: 0 },
    { key: "ratio", title: "× atomic", digits: 1 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= bench.rounds; round++) {
      for (const scenario of SCENARIOS) {
        for (const strategy of ADMISSION_STRATEGIES) {
          const figures = await measure(bench, scenario, strategy);
          const name = nameOf(scenario, strategy);
          bench.logProgress(`admission, round ${round}: ${name}: p95 ${figures.p95_ms.toFixed(1)} ms`);
          series.add(name, scenario.processes, figures);
          faults.push(...faultsOf(figures, strategy).map((fault) => `${name}: ${fault}`));
        }
      }
    }
    return { series, faults, targets: SCENARIOS.flatMap((scenario) => compare(series, scenario)) };
  },
};

interface Scenario {
  readonly system: System;
  readonly processes: number;
}

async function measure({ children }: Bench, { system, processes }: Scenario, strategy: AdmissionStrategy) {
  return withFreshServers(system, async ({ backend }) => {
    const goRedisUrl = backend.kind === "cluster" ? backend.redisUrl : null;
    const starts = STARTS / processes;
    const task = { kind: "admission", backend, strategy, limit: LIMIT, starts, goRedisUrl } as const;
    const starters = [];
    // Sequentially, because each process applies the workflow.
    for (let n = 0; n < processes; n++) starters.push(await children.start<AdmissionFigures>(task));
    if (goRedisUrl !== null) await go(goRedisUrl);
    const figures = await Promise.all(starters.map((starter) => starter.done));
    const latenciesMs = figures.flatMap((starter) => starter.latenciesMs);
    const count = (status: number) => figures.reduce((total, { statuses }) => total + (statuses[status] ?? 0), 0);
    return {
      p50_ms: percentile(latenciesMs, 0.5),
      p95_ms: percentile(latenciesMs, 0.95),
      max_ms: Math.max(...latenciesMs),
      status_200: count(200),
      status_429: count(429),
      status_503: count(503),
    };
  });
}

async function go(redisUrl: string): Promise<void> {
  const redis = new Redis(redisUrl);
  await redis.publish(GO_CHANNEL, "go");
  redis.disconnect();
}

type Figures = Awaited<ReturnType<typeof measure>>;

function faultsOf(figures: Figures, strategy: AdmissionStrategy): string[] {
  const { status_200: admitted, status_429: full, status_503: unavailable } = figures;
  const faults: string[] = [];
  if (admitted > LIMIT) faults.push(`${admitted} runs were admitted at a limit of ${LIMIT}`);
  if (admitted + full + unavailable !== STARTS)
    faults.push(`${STARTS} starts, ${admitted + full + unavailable} outcomes`);
  if (strategy !== "atomic") return faults;
  if (admitted < LIMIT) faults.push(`${admitted} runs were admitted, ${LIMIT} expected`);
  if (unavailable > 0) faults.push(`${unavailable} starts got 503 with atomic admission`);
  return faults;
}

function compare(series: Series, scenario: Scenario): Target[] {
  const inFlight = scenario.processes;
  const atomic = { name: nameOf(scenario, "atomic"), inFlight };
  return ADMISSION_STRATEGIES.map((strategy) => {
    const name = nameOf(scenario, strategy);
    series.compare("p95_ms", "ratio", { name, inFlight }, atomic);
    const ratio = series.median(name, inFlight, "ratio");
    return { strategy, target: atMost(`${scenario.system.name}: p95 atomic ≤ 0.1 × ${strategy}`, 1 / ratio, 0.1) };
  })
    .filter(({ strategy }) => strategy !== "atomic")
    .map(({ target }) => target);
}

const nameOf = ({ system }: Scenario, strategy: AdmissionStrategy) => `${system.name}, ${strategy}`;

const STARTS = 100;
const LIMIT = 2;
const SCENARIOS: readonly Scenario[] = [
  { system: { name: EMBEDDED, kind: "embedded", concurrency: 1 }, processes: 1 },
  { system: { name: CLUSTER, kind: "cluster", concurrency: 1 }, processes: 4 },
];
