import { POOLS, POOLS_LIST } from "../../core/model/kill-switch.ts";
import { RUNS, type Run } from "../../core/model/run.ts";
import { uniformOf } from "../../core/rollout/arm.ts";
import { activeRolloutsOf, isRolloutRecord } from "../../core/rollout/rollout.ts";
import type { Versioned } from "../../ports/store.ts";
import type { SimNet } from "../adapters/world.ts";
import { type Decorator, withGuards, withPuts, withStore, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in arms, measures and the propagation of rollouts. */
export const ROLLOUT_MUTANTS: readonly Mutant[] = [
  {
    name: "arm-follows-the-share",
    about: "the arm of a started run is drawn again with the share of a later stage",
    caughtBy: ["arm"],
    world: withPuts((put) => {
      if (put.table !== RUNS.name || put.value === null || put.expect === 0) return put;
      const run = put.value as Run;
      return run.arms === undefined ? put : { ...put, value: { ...run, arms: redrawn(run) } };
    }),
  },
  {
    name: "rollback-not-propagated",
    about: "one host keeps its first copy of each rollout, also after a restart",
    caughtBy: ["rollback"],
    world: (world, net) => (world.name === "control-1" ? withFirstCopies(net)(world) : world),
  },
  {
    name: "measured-after-the-horizon",
    about: "a run is measured for an hour, whatever the horizon of its rollout",
    caughtBy: ["measure"],
    world: withValues(RUNS, (run) => (run.arms === undefined ? run : { ...run, arms: prolonged(run) })),
  },
  {
    name: "results-not-measured",
    about: "the measures of a run are not stored",
    caughtBy: ["measure"],
    world: withValues(RUNS, ({ measures: _, ...run }) => run),
  },
  {
    name: "second-rollout-not-refused",
    about: "a subject can have several active rollouts",
    caughtBy: ["rollout"],
    world: withGuards(
      (guard) => guard.kind !== "counter" || guard.counter.group !== activeRolloutsOf("lock_busy").group,
    ),
  },
];

const redrawn = ({ id, arms = {} }: Run): Run["arms"] & object =>
  Object.fromEntries(
    Object.entries(arms).map(([rollout, own]) => {
      const arm = uniformOf(`${rollout}/${id}`) < 0.9 ? "treatment" : "control";
      return [rollout, { ...own, arm } as const];
    }),
  );

const prolonged = ({ createdMs, arms = {} }: Run): Run["arms"] & object =>
  Object.fromEntries(
    Object.entries(arms).map(([rollout, own]) => [rollout, { ...own, untilMs: createdMs + 3_600_000 }]),
  );

const COPIES = new WeakMap<SimNet, Map<string, Versioned<never>>>();

function withFirstCopies(net: SimNet): Decorator {
  const first = COPIES.get(net) ?? new Map<string, Versioned<never>>();
  COPIES.set(net, first);
  return withStore((store) => ({
    list: async (table, query) => {
      const page = await store.list(table, query);
      if (table.name !== POOLS.name || query.index !== POOLS_LIST) return page;
      for (const item of page.items) {
        if (isRolloutRecord(item.id) && !first.has(item.id)) first.set(item.id, item as Versioned<never>);
      }
      return { ...page, items: [...page.items.filter(({ id }) => !isRolloutRecord(id)), ...first.values()] };
    },
  }));
}
