import { Redis } from "ioredis";
import { ADMISSION_STRATEGIES, type AdmissionFigures, type AdmissionStrategy, GO_CHANNEL } from "../child/task.ts";
import { percentile } from "../frame/figures.ts";
import { Series } from "../frame/series.ts";
import { onFreshGround, type System } from "../frame/servers.ts";
import { atMost, type Bench, type Suite, type Target } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** How long a start of a run takes when everybody starts at once and few may: atomically, and behind a polled lock. */
export const ADMISSION_SUITE: Suite = {
  title: "admission: 100 starts at once for an org that may have 2 runs open (name, processes)",
  notes: [
    "the runs stay open, so that all but two are refused; latency from the call to its answer, whichever that is",
    "200: let in; 429: no room; 503: the gate was still held by others after 2 s (polled alone)",
    "polled: the founding lock, asked again every 10 ms, or spread by a half either way; ratio of the p95 to that of atomic",
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
      for (const scene of SCENES) {
        for (const strategy of ADMISSION_STRATEGIES) {
          const figures = await measure(bench, scene, strategy);
          const name = nameOf(scene, strategy);
          bench.say(`admission, round ${round}: ${name}: p95 ${figures.p95_ms.toFixed(1)} ms`);
          series.add(name, scene.processes, figures);
          faults.push(...faultsOf(figures, strategy).map((fault) => `${name}: ${fault}`));
        }
      }
    }
    return { series, faults, targets: SCENES.flatMap((scene) => compare(series, scene)) };
  },
};

interface Scene {
  readonly system: System;
  readonly processes: number;
}

async function measure({ children }: Bench, { system, processes }: Scene, strategy: AdmissionStrategy) {
  return onFreshGround(system, async ({ side }) => {
    const goRedisUrl = side.kind === "cluster" ? side.redisUrl : null;
    const starts = STARTS / processes;
    const task = { kind: "admission", side, strategy, limit: LIMIT, starts, goRedisUrl } as const;
    const starters = [];
    // One after another: each applies the workflow, and all but the first find it there.
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
  const { status_200: letIn, status_429: full, status_503: unavailable } = figures;
  const faults: string[] = [];
  if (letIn > LIMIT) faults.push(`${letIn} runs were let in where ${LIMIT} may be open`);
  if (letIn + full + unavailable !== STARTS) faults.push(`${STARTS} starts, ${letIn + full + unavailable} answers`);
  if (strategy !== "atomic") return faults;
  if (letIn < LIMIT) faults.push(`${letIn} runs were let in where there was room for ${LIMIT}`);
  if (unavailable > 0) faults.push(`${unavailable} starts were told to come back, though nothing is waited for`);
  return faults;
}

function compare(series: Series, scene: Scene): Target[] {
  const inFlight = scene.processes;
  const atomic = { name: nameOf(scene, "atomic"), inFlight };
  return ADMISSION_STRATEGIES.map((strategy) => {
    const name = nameOf(scene, strategy);
    series.compare("p95_ms", "ratio", { name, inFlight }, atomic);
    const ratio = series.median(name, inFlight, "ratio");
    return { strategy, target: atMost(`${scene.system.name}: p95 atomic ≤ 0.1 × ${strategy}`, 1 / ratio, 0.1) };
  })
    .filter(({ strategy }) => strategy !== "atomic")
    .map(({ target }) => target);
}

const nameOf = ({ system }: Scene, strategy: AdmissionStrategy) => `${system.name}, ${strategy}`;

const STARTS = 100;
const LIMIT = 2;
const SCENES: readonly Scene[] = [
  { system: { name: EMBEDDED, kind: "embedded", concurrency: 1 }, processes: 1 },
  { system: { name: CLUSTER, kind: "cluster", concurrency: 1 }, processes: 4 },
];
