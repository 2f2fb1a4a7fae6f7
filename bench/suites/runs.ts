import { createRequire } from "node:module";
import { STEPS } from "../child/ours/payload.ts";
import { DBOS_PACKAGE } from "../child/peers/dbos.ts";
import type { LoopFigures } from "../child/task.ts";
import { findPostgres } from "../frame/postgres.ts";
import { Series } from "../frame/series.ts";
import { onFreshGround, type System } from "../frame/servers.ts";
import { atLeast, type Bench, type NotRun, type Suite, type Target } from "../frame/suite.ts";
import { CLUSTER, compareWithBest, EMBEDDED, timesOf } from "./jobs.ts";

/** Whole runs of a workflow, everything in one process, against BullMQ's flows and DBOS's workflows. */
export const RUNS_SUITE: Suite = {
  title: "runs: workflows of three worker steps in a row, everything in one process (name, runs in flight)",
  notes: [
    "latency from the start call to the committed end of the run; every step of ours is checked against the policy",
    "BullMQ: a flow of parent, child and grandchild; c = concurrency of a worker; 1 or 3 queues, each with a worker",
    "DBOS: steps are calls in the process of the workflow, no worker, no check; p = its pool of connections (its default is 10)",
    "CPU of the Node process (client) and of Redis, NATS and PostgreSQL (server); ratios to BullMQ's best, round by round",
    "Redis: appendonly, everysec, for both; embedded and PostgreSQL (its own settings) sync to disk before acknowledging",
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
        const figures = await measure(bench, system);
        const shown = runFigures(figures);
        bench.say(
          `runs, round ${round}: ${system.name}: ${Math.round(shown.steps_per_s)} steps/s, ` +
            `${Math.round(shown.cpu_us_per_step)} µs CPU a step`,
        );
        series.add(system.name, IN_FLIGHT, shown);
        faults.push(...figures.faults.map((fault) => `${system.name}, runs: ${fault}`));
      }
    }
    compareWithBest(series, IN_FLIGHT, systems, { speed: "steps_per_s", cpu: "cpu_us_per_step" });
    return { series, faults, targets: targetsOf(series), notRun };
  },
};

function measure({ children, isQuick }: Bench, system: System): Promise<LoopFigures> {
  return onFreshGround(system, ({ side, serverPids }) =>
    children.run<LoopFigures>({
      kind: "loop",
      load: "runs",
      side,
      role: "all",
      inFlight: IN_FLIGHT,
      prefilled: false,
      serverPids,
      clientPids: [],
      ...timesOf(isQuick),
    }),
  );
}

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
    atLeast("embedded: steps/s ≥ 1.5 × BullMQ's flows", ratio(EMBEDDED), 1.5),
    atLeast("NATS + Redis: steps/s ≥ 1 × BullMQ's flows", ratio(CLUSTER), 1),
  ];
}

/** DBOS is neither a dependency nor alone: it needs its package and a PostgreSQL. */
function missingPeers(): NotRun[] {
  const reasons: string[] = [];
  if (findPostgres() === null) reasons.push("no PostgreSQL here (`initdb` and `postgres`)");
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
/** What suits BullMQ best is found by trying. */
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
