import { RESERVATIONS } from "../../core/jobs/idempotency.ts";
import { AUDIT_PAGES, AUDIT_PENDING, AUDIT_PENDING_GROUP } from "../../core/model/audit.ts";
import { isFinal, JOBS, type Job } from "../../core/model/job.ts";
import { RETRY_STATES, type StoredRetryState } from "../../core/model/parked-message.ts";
import { RUNS } from "../../core/model/run.ts";
import type { RetryState } from "../../core/retry/budget.ts";
import { RETRY_CLASSES } from "../../core/retry/retry-classes.ts";
import type { Change } from "../../ports/store.ts";
import { withBlobs, withCommit, withGuards, withPuts, withStore, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in reads and writes of the store. */
export const STORE_MUTANTS: readonly Mutant[] = [
  {
    name: "no-outbox-sweep",
    about: "the outbox of a crashed process is never relayed",
    caughtBy: ["outbox"],
    world: withStore(() => ({ unsent: async () => [] })),
  },
  {
    name: "outbox-never-struck-off",
    about: "published messages stay in the outbox and are published again",
    caughtBy: ["endless"],
    world: withStore(() => ({ sent: async () => undefined })),
  },
  {
    name: "publish-before-commit",
    about: "messages are published before their change is committed",
    caughtBy: ["unsaved"],
    world: (world) =>
      withCommit(async (change, commit) => {
        await Promise.all(change.sends.map((message) => world.bus.publish(message)));
        return commit(change);
      })(world),
  },
  {
    name: "lost-send",
    about: "messages are not added to the outbox",
    caughtBy: ["swallowed"],
    world: withCommit((change, commit) => commit({ ...change, sends: [] })),
  },
  {
    name: "no-fence-check",
    about: "the store accepts a stale fence",
    caughtBy: ["lost_update", "fence"],
    world: withGuards(({ kind }) => kind !== "fence"),
  },
  {
    name: "guard-not-checked",
    about: "the store ignores counter guards",
    caughtBy: ["window"],
    world: withGuards(({ kind }) => kind !== "counter"),
  },
  {
    name: "version-not-checked",
    about: "the store does not check record versions",
    caughtBy: ["terminal", "moves"],
    world: withPuts(({ expect: _, ...put }) => ({ ...put, expect: null })),
  },
  {
    name: "split-commit",
    about: "the puts of one change are committed one by one",
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
    about: "a job is not added to its queue",
    caughtBy: ["index", "stuck"],
    world: withPuts((put) => (put.table === JOBS.name ? { ...put, to: { ...put.to, queue: null } } : put)),
  },
  {
    name: "leaking-counter",
    about: "a job that leaves the window does not decrement its counters",
    caughtBy: ["counters", "stuck"],
    world: withPuts((put) => (put.table === JOBS.name ? { ...put, from: { ...put.from, counters: [] } } : put)),
  },
  {
    name: "forgets-idempotency",
    about: "the idempotency key of a job is not stored",
    caughtBy: ["idempotency"],
    world: withCommit((change, commit) =>
      commit({ ...change, puts: change.puts.filter(({ table }) => table !== RESERVATIONS.name) }),
    ),
  },
  {
    name: "budget-shared-between-classes",
    about: "a retry of one class uses the budgets of all classes",
    caughtBy: ["budget"],
    world: withValues(RETRY_STATES, withSharedBudget),
  },
  {
    name: "no-due-sweep",
    about: "due records are never processed",
    caughtBy: ["stuck"],
    world: withStore(() => ({ due: async () => [] })),
  },
  {
    name: "no-old-timers",
    about: "records that became due during a long pause or outage are never processed",
    caughtBy: ["stuck"],
    world: withStore((store) => ({ due: async (query) => (query.fromMs === undefined ? [] : store.due(query)) })),
  },
  {
    name: "due-too-early",
    about: "retries run at once instead of when they are due",
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
    about: "the org with the longest backlog is dispatched until it is empty",
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
    about: "entries taken from a queue are given to other processes as well",
    caughtBy: ["claims"],
    world: withStore((store) => ({ take: (table, query) => store.take(table, { ...query, leaseMs: 0 }) })),
  },
  {
    name: "due-without-lease",
    about: "due records are given to every process",
    caughtBy: ["claims"],
    world: withStore((store) => ({ due: (query) => store.due({ ...query, leaseMs: 0 }) })),
  },
  {
    name: "answer-before-commit",
    about: "a commit is reported before it is written",
    caughtBy: ["acknowledged"],
    world: withCommit(async (change, commit) => {
      commit(change).catch(() => undefined);
      return { kind: "committed", seen: change.watch.map(() => 0) };
    }),
  },
  {
    name: "replaced-payloads",
    about: "the payloads of a tenant share a key, and a later one replaces an earlier one",
    caughtBy: ["outcome"],
    world: withBlobs((blobs) => {
      const shared = (key: string): string => key.split("/")[0] ?? key;
      return {
        get: (key) => blobs.get(shared(key)),
        delete: async () => undefined,
        async put(key, bytes, expiresAtMs) {
          await blobs.delete(shared(key));
          await blobs.put(shared(key), bytes, expiresAtMs);
        },
      };
    }),
  },
  {
    name: "keeps-for-ever",
    about: "ended jobs are never removed",
    caughtBy: ["retention"],
    world: withPuts((put) =>
      put.table === JOBS.name && put.value !== null && isFinal((put.value as Job).state)
        ? { ...put, to: { ...put.to, dueMs: null } }
        : put,
    ),
  },
  {
    name: "no-audit-sweep",
    about: "pending audit entries are never added to their chain",
    caughtBy: ["audit"],
    world: withStore((store) => ({
      counts: async (group, limit) => (group === AUDIT_PENDING_GROUP ? new Map() : store.counts(group, limit)),
    })),
  },
  {
    name: "unaudited-run-actions",
    about: "the audit entry of a request is not part of the commit that changes its run",
    caughtBy: ["human_actions"],
    world: withCommit((change, commit) => commit(isRunChange(change) ? withoutAudit(change) : change)),
  },
  {
    name: "audited-twice",
    about: "an audit entry is stored twice",
    caughtBy: ["human_actions"],
    world: withValues(AUDIT_PENDING, (pending) => ({ ...pending, lines: [...pending.lines, ...pending.lines] })),
  },
  {
    name: "audit-line-changed",
    about: "an audit entry is stored with another time than the hashed one",
    caughtBy: ["audit"],
    world: withValues(AUDIT_PAGES, (page) => ({
      ...page,
      entries: page.entries.map((entry) => ({ ...entry, at: entry.at + 1 })),
    })),
  },
];

const isRunChange = ({ puts }: Change): boolean => puts.some(({ table }) => table === RUNS.name);

const withoutAudit = (change: Change): Change => ({
  ...change,
  puts: change.puts.filter(({ table }) => table !== AUDIT_PENDING.name),
});

function withSharedBudget(stored: StoredRetryState): StoredRetryState {
  const [largest] = Object.values(stored.patience).sort((a, b) => b.count - a.count);
  if (largest === undefined) return stored;
  const retryState = Object.fromEntries(RETRY_CLASSES.map((retryClass) => [retryClass, largest])) as RetryState;
  return { ...stored, patience: retryState };
}
