import { createRequire } from "node:module";
import { STEPS } from "../child/payload.ts";
import { DBOS_PACKAGE } from "../child/peers/dbos.ts";
import type { LoopFigures } from "../child/task.ts";
import { findPostgres } from "../frame/postgres.ts";
import { Series } from "../frame/series.ts";
import type { System } from "../frame/servers.ts";
import { atLeast, type NotRun, type Suite, type Target } from "../frame/suite.ts";
import { CLUSTER, compareWithBest, EMBEDDED, measureLoop } from "./jobs.ts";

/** Workflow runs in one process, compared with BullMQ flows and DBOS workflows. */
export const RUNS_SUITE: Suite = {
  title: "runs: workflows of three sequential worker steps in one process (name, runs in flight)",
  notes: [
    "latency from the start call to the committed end of the run; Cordum checks every step against the policy",
    "BullMQ: a flow of parent, child and grandchild; c = concurrency per worker; 1 or 3 queues with a worker each",
    "DBOS: steps are calls in the process of the workflow, without worker and check; p = connection pool (default 10)",
    "CPU of the Node process (client) and of Redis, NATS and PostgreSQL (server); ratios to the best of BullMQ, per round",
    "Redis: appendonly, everysec, for all; embedded and PostgreSQL (default settings) sync to disk before they acknowledge",
  ],
  columns: [
    { key: "runs_per_s", title: "runs/s", digits: 0 },
    { key: "steps_per_s", title: "steps/s", digits: 0 },
    { key: "p50_ms", title: "p50 ms", digits: 2 },
    { key: "p95_ms", title: "p95 ms", digits: 2 },
    { key: "cpu_us_per_step", title: "CPU µs/step", digits: 0 },
    { key: "cpu_us_client", title: "client", digits: 0 },
    { key: "cpu_us_server", title: "server", digits: 0 },
    { key: "ratio", title: "× speed", digits: 2 },
    { key: "cpu_ratio", title: "× CPU", digits: 2 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    const notRun = missingPeers();
    const systems = [...SYSTEMS, ...(notRun.length === 0 ? DBOS : [])];
    for (let round = 1; round <= bench.rounds; round++) {
      for (const system of systems) {
        const figures = await measureLoop(bench, system, "runs", IN_FLIGHT);
        const shown = runFigures(figures);
        bench.logProgress(
          `runs, round ${round}: ${system.name}: ${Math.round(shown.steps_per_s)} steps/s, ` +
            `${Math.round(shown.cpu_us_per_step)} µs CPU per step`,
        );
        series.add(system.name, IN_FLIGHT, shown);
        faults.push(...figures.faults.map((fault) => `${system.name}, runs: ${fault}`));
      }
    }
    compareWithBest(series, IN_FLIGHT, systems, { speed: "steps_per_s", cpu: "cpu_us_per_step" });
    return { series, faults, targets: targetsOf(series), notRun };
  },
};

function runFigures({ jobs: runs, seconds, p50Ms, p95Ms, clientUs, serverUs }: LoopFigures) {
  const steps = runs * STEPS;
  return {
    runs_per_s: runs / seconds,
    steps_per_s: steps / seconds,
    p50_ms: p50Ms,
    p95_ms: p95Ms,
    cpu_us_per_step: (clientUs + serverUs) / steps,
    cpu_us_client: clientUs / steps,
    cpu_us_server: serverUs / steps,
  };
}

function targetsOf(series: Series): Target[] {
  const ratio = (name: string) => series.median(name, IN_FLIGHT, "ratio");
  return [
    atLeast("embedded: steps/s ≥ 1.5 × BullMQ flows", ratio(EMBEDDED), 1.5),
    atLeast("NATS + Redis: steps/s ≥ 1 × BullMQ flows", ratio(CLUSTER), 1),
  ];
}

/** DBOS needs its optional package and PostgreSQL. */
function missingPeers(): NotRun[] {
  const reasons: string[] = [];
  if (findPostgres() === null) reasons.push("PostgreSQL (`initdb` and `postgres`) is not installed");
  if (!isInstalled(DBOS_PACKAGE)) reasons.push(`the package \`${DBOS_PACKAGE}\` is not installed`);
  return reasons.length === 0 ? [] : [{ name: "DBOS", reason: reasons.join("; ") }];
}

function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
}

const IN_FLIGHT = 100;
/** Ratios use the best of these configurations. */
const BULLMQ = [50, 100].flatMap((concurrency) =>
  (["one", "each"] as const).map(
    (queues): System => ({
      name: `BullMQ c=${concurrency}, ${queues === "one" ? "1 queue" : "3 queues"}`,
      kind: "bullmq",
      concurrency,
      queues,
    }),
  ),
);
const SYSTEMS: readonly System[] = [
  ...BULLMQ,
  { name: CLUSTER, kind: "cluster", concurrency: 100 },
  { name: EMBEDDED, kind: "embedded", concurrency: 100 },
];
const DBOS: readonly System[] = [10, 50].map((pool) => ({ name: `DBOS p=${pool}`, kind: "dbos", concurrency: pool }));
