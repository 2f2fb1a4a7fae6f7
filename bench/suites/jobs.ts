import type { LoopFigures, LoopTask } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atLeast, atMost, type Bench, type Column, type Suite, type Target } from "../frame/suite.ts";

/** Submitter, control plane and worker in one process, compared with BullMQ's queue and worker in one process. */
export const JOBS_SUITE: Suite = {
  title: "jobs: submitter, control plane and worker in one process (name, jobs in flight)",
  notes: [
    "latency from the submit call to the committed final state (BullMQ: from add() to the worker's completed event)",
    "CPU of the Node process (client) and of Redis and NATS (server); c = BullMQ's concurrency; ratios to the best of BullMQ",
    "Redis: appendonly, everysec, for both; JetStream: file storage; embedded: SQLite, synced to disk before it acknowledges",
    "each submit is awaited separately; finished jobs are kept (BullMQ's default; Cordum: 7 days)",
  ],
  columns: jobColumns(),
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    for (let round = 1; round <= bench.rounds; round++) {
      for (const inFlight of IN_FLIGHT) {
        for (const system of systemsAt(inFlight)) {
          const figures = await measureLoop(bench, system, "jobs", inFlight);
          bench.logProgress(`jobs, round ${round}: ${summary(system, inFlight, figures)}`);
          series.add(system.name, inFlight, jobFigures(figures));
          faults.push(...figures.faults.map((fault) => `${system.name}, ${inFlight} in flight: ${fault}`));
        }
      }
    }
    for (const inFlight of IN_FLIGHT) compareWithBest(series, inFlight, systemsAt(inFlight));
    return { series, faults, targets: targetsOf(series) };
  },
};

export function jobColumns(): readonly Column[] {
  return [
    { key: "jobs_per_s", title: "jobs/s", digits: 0 },
    { key: "p50_ms", title: "p50 ms", digits: 2 },
    { key: "p95_ms", title: "p95 ms", digits: 2 },
    { key: "cpu_us_per_job", title: "CPU µs/job", digits: 0 },
    { key: "cpu_us_client", title: "client", digits: 0 },
    { key: "cpu_us_server", title: "server", digits: 0 },
    { key: "ratio", title: "× speed", digits: 2 },
    { key: "cpu_ratio", title: "× CPU", digits: 2 },
  ];
}

export function jobFigures(figures: LoopFigures): Readonly<Record<string, number>> {
  const { jobs, seconds, clientUs, serverUs } = figures;
  return {
    jobs_per_s: jobs / seconds,
    p50_ms: figures.p50Ms,
    p95_ms: figures.p95Ms,
    cpu_us_per_job: (clientUs + serverUs) / jobs,
    cpu_us_client: clientUs / jobs,
    cpu_us_server: serverUs / jobs,
  };
}

export function summary(system: System, inFlight: number, { jobs, seconds, clientUs, serverUs }: LoopFigures): string {
  const rate = Math.round(jobs / seconds);
  return `${system.name}, ${inFlight} in flight: ${rate} jobs/s, ${Math.round((clientUs + serverUs) / jobs)} µs CPU per job`;
}

/** Speed relative to the fastest configuration of BullMQ, CPU relative to its cheapest. */
export function compareWithBest(
  series: Series,
  inFlight: number,
  systems: readonly System[],
  keys = { speed: "jobs_per_s", cpu: "cpu_us_per_job" },
): void {
  const peers = systems.filter((system) => system.kind === "bullmq").map(({ name }) => name);
  const by = (key: string) => (a: string, b: string) =>
    series.median(a, inFlight, key) - series.median(b, inFlight, key);
  const fastest = peers.toSorted(by(keys.speed)).at(-1);
  const cheapest = peers.toSorted(by(keys.cpu)).at(0);
  if (fastest === undefined || cheapest === undefined) return;
  for (const { name } of systems) {
    series.compare(keys.speed, "ratio", { name, inFlight }, { name: fastest, inFlight });
    series.compare(keys.cpu, "cpu_ratio", { name, inFlight }, { name: cheapest, inFlight });
  }
}

/** A closed loop on new servers, in one process. */
export function measureLoop(
  { children, isQuick }: Bench,
  system: System,
  load: LoopTask["load"],
  inFlight: number,
): Promise<LoopFigures> {
  return withFreshServers(system, ({ backend, serverPids }) =>
    children.run<LoopFigures>({
      kind: "loop",
      load,
      backend,
      role: "all",
      inFlight,
      prefilled: false,
      serverPids,
      clientPids: [],
      ...timesOf(isQuick),
    }),
  );
}

/** The warm-up is long enough for the compiler: a control plane runs for weeks. */
export function timesOf(isQuick: boolean) {
  return isQuick ? { warmMs: 700, measureMs: 1_000 } : { warmMs: 8_000, measureMs: 4_000 };
}

function targetsOf(series: Series): Target[] {
  const ratio = (name: string, key: string) => series.median(name, 100, key);
  return [
    atLeast("embedded at 100 in flight ≥ 2 × BullMQ", ratio(EMBEDDED, "ratio"), 2),
    atLeast("NATS + Redis at 100 in flight ≥ 1 × BullMQ", ratio(CLUSTER, "ratio"), 1),
    atMost("NATS + Redis, CPU per job ≤ 1 × BullMQ", ratio(CLUSTER, "cpu_ratio"), 1),
  ];
}

export const CLUSTER = "NATS + Redis";
export const EMBEDDED = "embedded";
const IN_FLIGHT = [1, 100, 1_000];
/** The fastest configurations of BullMQ. */
const BULLMQ_CONCURRENCY: Readonly<Record<number, readonly number[]>> = {
  1: [1, 50],
  100: [50, 100],
  1000: [50, 100, 500],
};

function systemsAt(inFlight: number): readonly System[] {
  return [
    ...(BULLMQ_CONCURRENCY[inFlight] ?? []).map(
      (c): System => ({ name: `BullMQ c=${c}`, kind: "bullmq", concurrency: c }),
    ),
    { name: CLUSTER, kind: "cluster", concurrency: Math.max(100, inFlight) },
    { name: EMBEDDED, kind: "embedded", concurrency: Math.max(100, inFlight) },
  ];
}
