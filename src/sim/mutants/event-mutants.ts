import { RUNS, type Run } from "../../core/model/run.ts";
import { WORKFLOW_VERSIONS } from "../../core/model/workflow.ts";
import { type Decorator, withCommit, withStore, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in events and loops. */
export const EVENT_MUTANTS: readonly Mutant[] = [
  {
    name: "early-event-lost",
    about: "an event that arrives before its step waits is not kept",
    caughtBy: ["events", "run_outcome"],
    world: withEvents((events) => ({ ...events, kept: [], bytes: 0 })),
  },
  {
    name: "event-taken-again",
    about: "an event that a step took stays with the kept ones",
    caughtBy: ["events"],
    world: withStore((store) => ({
      commit: async (change) => {
        const puts = await Promise.all(
          change.puts.map(async (one) => {
            if (one.table !== RUNS.name || one.value === null) return one;
            const before = (await store.load(RUNS, one.id))?.value.events?.kept ?? [];
            const run = one.value as Run;
            const kept = [
              ...before,
              ...(run.events?.kept ?? []).filter(({ line }) => !before.some((b) => b.line === line)),
            ];
            return before.length === 0
              ? one
              : { ...one, value: { ...run, events: { ids: [], bytes: 0, ...run.events, kept } } };
          }),
        );
        return store.commit({ ...change, puts });
      },
    })),
  },
  {
    name: "event-id-forgotten",
    about: "the ids of events are not stored",
    caughtBy: ["events"],
    world: withEvents((events) => ({ ...events, ids: [] })),
  },
  {
    name: "loop-without-bound",
    about: "a loop forgets its largest number of iterations",
    caughtBy: ["loop", "run_outcome"],
    world: withCommit((change, commit) =>
      commit({
        ...change,
        puts: change.puts.map((one) => {
          if (one.table !== WORKFLOW_VERSIONS.name || one.value === null) return one;
          const text = JSON.stringify(one.value).replace(/"max_iterations":\d+/g, '"max_iterations":100');
          return { ...one, value: JSON.parse(text) };
        }),
      }),
    ),
  },
  {
    name: "loop-state-lost",
    about: "an iteration does not get the state of the one before",
    caughtBy: ["loop"],
    world: withValues(RUNS, (run) => {
      const steps = Object.entries(run.steps).map(([id, { loop, ...step }]) => {
        if (loop === undefined) return [id, step] as const;
        const { previous: _, ...rest } = loop;
        return [id, { ...step, loop: rest }] as const;
      });
      return { ...run, steps: Object.fromEntries(steps) };
    }),
  },
];

function withEvents(change: (events: NonNullable<Run["events"]>) => NonNullable<Run["events"]>): Decorator {
  return withValues(RUNS, (run) => (run.events === undefined ? run : { ...run, events: change(run.events) }));
}
