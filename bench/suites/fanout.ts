import type { FanControlFigures, FanFigures, ServeFigures } from "../child/task.ts";
import { Series } from "../frame/series.ts";
import { type Servers, type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Bench, type Suite, type Target } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** One run with many children: throughput, lock acquisitions and the effect on other runs. */
export const FANOUT_SUITE: Suite = {
  title: "fanout: one wide `for_each`, 8 workers (name, items)",
  notes: [
    "NATS + Redis: 4 control plane processes, one worker process, one submitter process; embedded: one process",
    "locks, busy: acquisitions of the wide run's lock and busy replies, per applied result of its children",
    "appliers: control plane processes that applied results of the wide run",
    "others: 20 runs of three steps per second; p95 before the wide run (quiet) and of those started during it",
  ],
  columns: [
    { key: "seconds", title: "s", digits: 2 },
    { key: "children_per_s", title: "children/s", digits: 0 },
    { key: "locks_per_result", title: "locks/result", digits: 3 },
    { key: "busy_per_result", title: "busy/result", digits: 3 },
    { key: "appliers", title: "appliers", digits: 0 },
    { key: "p95_quiet_ms", title: "others p95 ms, quiet", digits: 2 },
    { key: "p95_ms", title: "during", digits: 2 },
    { key: "ratio", title: "× quiet", digits: 2 },
  ],
  async run(bench) {
    const series = new Series();
    const faults: string[] = [];
    const items = bench.isQuick ? ITEMS_QUICK : ITEMS;
    for (let round = 1; round <= Math.min(ROUNDS_MAX, bench.rounds); round++) {
      for (const system of SYSTEMS) {
        const measured = await measure(bench, system, items);
        const shown = figuresOf(measured, items);
        bench.logProgress(
          `fanout, round ${round}: ${system.name}: ${Math.round(shown.children_per_s)} children/s, ` +
            `${shown.locks_per_result.toFixed(3)} locks per result, others × ${shown.ratio.toFixed(2)}`,
        );
        series.add(system.name, items, shown);
        faults.push(...faultsOf(measured, items).map((fault) => `${system.name}, ${items} items: ${fault}`));
      }
    }
    return { series, faults, targets: SYSTEMS.flatMap(({ name }) => targetsOf(series, name, items)) };
  },
};

interface Measured {
  readonly fan: FanFigures;
  readonly controls: readonly FanControlFigures[];
  readonly workers: ServeFigures | null;
}

function measure(bench: Bench, system: System, items: number): Promise<Measured> {
  return withFreshServers(system, async (servers) => {
    if (system.kind === "cluster") return inProcesses(bench, servers, items);
    const fan = await bench.children.run<FanFigures>(taskOf(bench, servers, items, "all"));
    return { fan, controls: fan.control ? [fan.control] : [], workers: fan.workers };
  });
}

async function inProcesses(bench: Bench, servers: Servers, items: number): Promise<Measured> {
  const { children } = bench;
  const { backend } = servers;
  const controls = [];
  for (let n = 0; n < CONTROLS; n++) {
    controls.push(await children.start<FanControlFigures>({ kind: "fan-control", backend }));
  }
  const workers = await children.start<ServeFigures>({ kind: "fan-workers", backend, workers: WORKERS });
  const fan = await children.run<FanFigures>(taskOf(bench, servers, items, "submitter"));
  const worked = await workers.stop();
  return { fan, workers: worked, controls: await Promise.all(controls.map((control) => control.stop())) };
}

function taskOf({ isQuick }: Bench, { backend }: Servers, items: number, role: "all" | "submitter") {
  const times = isQuick ? { warmMs: 1_000, quietMs: 2_000 } : { warmMs: 2_000, quietMs: 8_000 };
  return { kind: "fan", backend, role, items, workers: WORKERS, othersPerSecond: OTHERS_PER_SECOND, ...times } as const;
}

function figuresOf({ fan, controls }: Measured, items: number) {
  const { runId, seconds, p95QuietMs, p95MeanwhileMs } = fan;
  return {
    seconds,
    children_per_s: items / seconds,
    locks_per_result: sum(controls.map(({ acquisitions }) => acquisitions[runId])) / resultsOf(fan, controls),
    busy_per_result: sum(controls.map(({ busy }) => busy[runId])) / resultsOf(fan, controls),
    appliers: controls.filter(({ results }) => (results[runId] ?? 0) > 0).length,
    p95_quiet_ms: p95QuietMs,
    p95_ms: p95MeanwhileMs,
    ratio: p95MeanwhileMs / p95QuietMs,
  };
}

function faultsOf({ fan, controls, workers }: Measured, items: number): string[] {
  const faults = [...fan.faults];
  const results = resultsOf(fan, controls);
  if (results !== items) faults.push(`${items} children, ${results} results applied`);
  if (workers && workers.again > 0) faults.push(`${workers.again} jobs were processed more than once`);
  return faults;
}

const resultsOf = ({ runId }: FanFigures, controls: readonly FanControlFigures[]): number =>
  sum(controls.map(({ results }) => results[runId]));

const sum = (values: readonly (number | undefined)[]): number =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0);

function targetsOf(series: Series, name: string, items: number): Target[] {
  return [
    atMost(
      `${name}: ≤ 0.2 acquisitions of the run lock per result`,
      series.median(name, items, "locks_per_result"),
      0.2,
    ),
    atMost(`${name}: p95 of other runs during the wide run ≤ 2 × quiet`, series.median(name, items, "ratio"), 2),
  ];
}

const ITEMS = 10_000;
const ITEMS_QUICK = 2_000;
const ROUNDS_MAX = 3;
const CONTROLS = 4;
const WORKERS = 8;
const OTHERS_PER_SECOND = 20;
const SYSTEMS: readonly System[] = [
  { name: CLUSTER, kind: "cluster", concurrency: 100 },
  { name: EMBEDDED, kind: "embedded", concurrency: 100 },
];
