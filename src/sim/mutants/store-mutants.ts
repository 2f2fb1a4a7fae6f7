import { RESERVATIONS } from "../../core/jobs/idempotency.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { RETRY_STATES, type StoredRetryState } from "../../core/model/parked-message.ts";
import type { RetryState } from "../../core/retry/budget.ts";
import { RETRY_CLASSES } from "../../core/retry/classes.ts";
import { withCommit, withPuts, withStore } from "./decorators.ts";
import type { Mutant } from "./mutants.ts";

/** Bugs in what is written, and in what is read back. */
export const STORE_MUTANTS: readonly Mutant[] = [
  {
    name: "no-outbox-sweep",
    about: "nobody sends what a dead process had saved",
    caughtBy: ["outbox"],
    world: withStore(() => ({ unsent: async () => [] })),
  },
  {
    name: "outbox-never-struck-off",
    about: "what was sent stays in the outbox, and is sent again and again",
    caughtBy: ["endless"],
    world: withStore(() => ({ sent: async () => undefined })),
  },
  {
    name: "publish-before-commit",
    about: "messages are sent before the change that they tell of is saved",
    caughtBy: ["unsaved"],
    world: (world) =>
      withCommit(async (change, commit) => {
        await Promise.all(change.sends.map((message) => world.bus.publish(message)));
        return commit(change);
      })(world),
  },
  {
    name: "lost-send",
    about: "messages do not get into the outbox",
    caughtBy: ["swallowed"],
    world: withCommit((change, commit) => commit({ ...change, sends: [] })),
  },
  {
    name: "no-fence-check",
    about: "the store takes a stale fence",
    caughtBy: ["lost_update", "fence"],
    world: withCommit((change, commit) => commit({ ...change, guards: change.guards.filter(isNo("fence")) })),
  },
  {
    name: "guard-not-checked",
    about: "the store ignores limits on counters",
    caughtBy: ["window"],
    world: withCommit((change, commit) => commit({ ...change, guards: change.guards.filter(isNo("counter")) })),
  },
  {
    name: "version-not-checked",
    about: "the store overwrites whatever is there",
    caughtBy: ["terminal", "moves"],
    world: withPuts(({ expect: _, ...put }) => ({ ...put, expect: null })),
  },
  {
    name: "split-commit",
    about: "the puts of one change are written one by one",
    caughtBy: ["letter"],
    world: withCommit(async (change, commit) => {
      const [first, ...rest] = change.puts;
      if (!first || rest.length === 0) return commit(change);
      const committed = await commit({ ...change, puts: [first] });
      return committed.kind === "committed" ? commit({ ...change, puts: rest, guards: [], sends: [] }) : committed;
    }),
  },
  {
    name: "lost-index",
    about: "a job is not entered in the queue that it waits in",
    caughtBy: ["index", "stuck"],
    world: withPuts((put) => (put.table === JOBS.name ? { ...put, to: { ...put.to, queue: null } } : put)),
  },
  {
    name: "leaking-counter",
    about: "a job that leaves the window is not counted out of it",
    caughtBy: ["counters", "stuck"],
    world: withPuts((put) => (put.table === JOBS.name ? { ...put, from: { ...put.from, counters: [] } } : put)),
  },
  {
    name: "forgets-idempotency",
    about: "the client's key is not kept with the job",
    caughtBy: ["idempotency"],
    world: withCommit((change, commit) =>
      commit({ ...change, puts: change.puts.filter(({ table }) => table !== RESERVATIONS.name) }),
    ),
  },
  {
    name: "budget-shared-between-classes",
    about: "waiting for one thing uses up the patience for every other",
    caughtBy: ["budget"],
    world: withPuts((put) =>
      put.table === RETRY_STATES.name ? { ...put, value: shared(put.value as StoredRetryState) } : put,
    ),
  },
  {
    name: "no-due-sweep",
    about: "nobody looks at records whose time has come",
    caughtBy: ["stuck"],
    world: withStore(() => ({ due: async () => [] })),
  },
  {
    name: "due-too-early",
    about: "retries come back all at once, before their time",
    caughtBy: ["early"],
    world: withStore((store) => ({
      due: async (query) => {
        const due = await store.due({ ...query, untilMs: query.nowMs + 60_000 });
        return due.map((item) => ({ ...item, dueMs: Math.min(item.dueMs, query.nowMs) }));
      },
    })),
  },
  {
    name: "one-org-first",
    about: "the org with the longest backlog is served until it is empty",
    caughtBy: ["fairness"],
    world: withStore((store) => ({
      counts: async (group, limit) => {
        const counts = await store.counts(group, limit);
        if (!group.startsWith("backlog/")) return counts;
        return new Map([...counts].sort((a, b) => b[1] - a[1]).slice(0, 1));
      },
    })),
  },
  {
    name: "take-without-lease",
    about: "what one process has taken from a queue is given to the next one as well",
    caughtBy: ["claims"],
    world: withStore((store) => ({ take: (table, query) => store.take(table, { ...query, leaseMs: 0 }) })),
  },
  {
    name: "due-without-lease",
    about: "every process wakes what is due",
    caughtBy: ["claims"],
    world: withStore((store) => ({ due: (query) => store.due({ ...query, leaseMs: 0 }) })),
  },
  {
    name: "answer-before-commit",
    about: "a change is called saved before it is",
    caughtBy: ["acknowledged"],
    world: withCommit(async (change, commit) => {
      commit(change).catch(() => undefined);
      return { kind: "committed", seen: change.watch.map(() => 0) };
    }),
  },
  {
    name: "keeps-for-ever",
    about: "nobody ever looks again at a job that has ended",
    caughtBy: ["retention"],
    world: withPuts((put) =>
      put.table === JOBS.name && put.value !== null && isFinal((put.value as Job).state)
        ? { ...put, to: { ...put.to, dueMs: null } }
        : put,
    ),
  },
];

function isNo(kind: string): (guard: { readonly kind: string }) => boolean {
  return (guard) => guard.kind !== kind;
}

function shared(stored: StoredRetryState | null): StoredRetryState | null {
  if (stored === null) return null;
  const [largest] = Object.values(stored.patience).sort((a, b) => b.count - a.count);
  if (largest === undefined) return stored;
  const retryState = Object.fromEntries(RETRY_CLASSES.map((retryClass) => [retryClass, largest])) as RetryState;
  return { ...stored, patience: retryState };
}
