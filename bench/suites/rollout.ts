import { MEASURED_PER_SECOND } from "../../src/core/rollout/measured-units.ts";
import type { PairedFeature, PairedFigures, PairedLoad } from "../child/task.ts";
import { medianInterval } from "../frame/bootstrap.ts";
import { Series } from "../frame/series.ts";
import { type System, withFreshServers } from "../frame/servers.ts";
import { atMost, type Suite, type Target } from "../frame/suite.ts";
import { CLUSTER, EMBEDDED } from "./jobs.ts";

/** The cost of an active rollout and of the record of lock contention. */
export const ROLLOUT_SUITE: Suite = {
  title: "rollout: CPU of an active rollout and of the contention record (name, in flight)",
  notes: [
    "one process and store per round; blocks off, on, on, off in turns; CPU of the Node process and of Redis and NATS",
    "difference: median over all groups of four blocks, with the 95 % interval of a bootstrap; wide runs contend for their lock",
    "a rollout of `lock_busy` with default measures; judge: the judgement of one unit, measured after the load",
  ],
  columns: [
    { key: "off_us", title: "off µs", digits: 0 },
    { key: "difference_pct", title: "difference %", digits: 2 },
    { key: "low_pct", title: "from %", digits: 2 },
    { key: "high_pct", title: "to %", digits: 2 },
    { key: "groups", title: "groups", digits: 0 },
    { key: "judge_us", title: "judge µs/unit", digits: 1 },
    { key: "judge_units", title: "units", digits: 0 },
  ],
  async run(bench) {
    const measured = new Map<Cell, PairedFigures[]>(CELLS.map((cell) => [cell, []]));
    for (let round = 1; round <= bench.rounds; round++) {
      for (const [cell, rounds] of measured) {
        const { name, system, feature, load } = cell;
        const figures = await withFreshServers(system, ({ backend, serverPids }) =>
          bench.children.run<PairedFigures>({
            kind: "paired",
            ...{ feature, load, backend, inFlight: IN_FLIGHT, serverPids },
            blockSize: load === "jobs" ? JOBS : RUNS,
            ...(bench.isQuick ? QUICK : FULL),
          }),
        );
        rounds.push(figures);
        const { median } = medianInterval(figures.groups.map(differencePct));
        bench.logProgress(`rollout, round ${round}: ${name}: ${median.toFixed(2)} %`);
      }
    }
    const series = new Series();
    const targets: Target[] = [];
    for (const [{ name }, rounds] of measured) {
      const groups = rounds.flatMap((figures) => figures.groups);
      const { median, low, high } = medianInterval(groups.map(differencePct));
      series.add(name, IN_FLIGHT, {
        ...{ difference_pct: median, low_pct: low, high_pct: high, groups: groups.length },
        off_us: medianInterval(groups.map(({ offUs }) => offUs)).median,
      });
      for (const { judge } of rounds) {
        if (judge !== null) series.add(name, IN_FLIGHT, { judge_us: judge.cpuUs, judge_units: judge.units });
      }
      targets.push(atMost(`${name}: CPU ≤ + 1 % (end of the interval)`, high, 1));
      if (rounds.every(({ judge }) => judge === null)) continue;
      const judgePct = (series.median(name, IN_FLIGHT, "judge_us") * MEASURED_PER_SECOND) / 10_000;
      targets.push(atMost(`${name}: judge at ${MEASURED_PER_SECOND} units/s ≤ 1 % of a core`, judgePct, 1));
    }
    const faults = [...measured].flatMap(([{ name }, rounds]) =>
      rounds.flatMap((figures) => figures.faults.map((fault) => `${name}: ${fault}`)),
    );
    return { series, faults, targets };
  },
};

const differencePct = ({ offUs, onUs }: PairedFigures["groups"][number]): number => 100 * (onUs / offUs - 1);

interface Cell {
  readonly name: string;
  readonly system: System;
  readonly feature: PairedFeature;
  readonly load: PairedLoad;
}

const IN_FLIGHT = 100;
const SYSTEMS: readonly System[] = [
  { name: CLUSTER, kind: "cluster", concurrency: 100 },
  { name: EMBEDDED, kind: "embedded", concurrency: 100 },
];
const MEASURED: readonly (readonly [PairedFeature, PairedLoad])[] = [
  ["rollout", "jobs"],
  ["rollout", "runs"],
  ["record", "jobs"],
  ["record", "wide runs"],
];
const CELLS: readonly Cell[] = MEASURED.flatMap(([feature, load]) =>
  SYSTEMS.map((system) => ({ name: `${feature}: ${load}, ${system.name}`, system, feature, load })),
);
const FULL = { warmMs: 6_000, groups: 40 };
const QUICK = { warmMs: 800, groups: 2 };
const JOBS = 400;
const RUNS = 150;
