import { RUN_RESERVATIONS, RUNS } from "../../core/model/run.ts";
import { SCHEDULES, type Schedule, startOf, withDue } from "../../core/schedule/schedule.ts";
import type { Change, Due, Put, Store } from "../../ports/store.ts";
import { type Decorator, withCommit, withPuts, withStore, withValues } from "./decorators.ts";
import type { Mutant } from "./registry.ts";

/** Bugs in schedules. */
export const SCHEDULE_MUTANTS: readonly Mutant[] = [
  {
    name: "slot-without-reservation",
    about: "a backfill starts slots that have a run",
    caughtBy: ["schedule_slot"],
    world: withCommit((change, commit) => commit(withoutReservation(change))),
  },
  {
    name: "schedule-moved-after-its-run",
    about: "a slot is recorded as started in a second commit, so that a crash between both starts it twice",
    caughtBy: ["schedule_slot"],
    world: withCommit(async (change, commit) => {
      const { start, move } = parted(change);
      const started = await commit(withoutReservation(start));
      if (move && started.kind === "committed") await commit(move);
      return started;
    }),
  },
  {
    name: "schedule-moved-before-its-run",
    about: "a slot is recorded as started before its run is created, so that a crash between both loses it",
    caughtBy: ["schedule_slot"],
    world: withCommit(async (change, commit) => {
      const { start, move } = parted(change);
      const moved = move && (await commit(move));
      return moved && moved.kind !== "committed" ? moved : commit(start);
    }),
  },
  {
    name: "overlap-ignored",
    about: "a slot starts while a run of the schedule is open",
    caughtBy: ["schedule_overlap"],
    world: withReads("overlap", "allow"),
  },
  {
    name: "queue-of-two-slots",
    about: "a second slot is queued and starts after the first one",
    caughtBy: ["schedule_slot", "schedule_overlap"],
    world: withPuts((one) => {
      const [before, after] = [one.before, one.value] as [Schedule | null, Schedule | null];
      if (one.table !== SCHEDULES.name || before?.queuedMs === undefined) return one;
      if (!after || after.queuedMs !== undefined || before.leftOut?.kind !== "skipped") return one;
      const { slotMs: queuedMs } = before.leftOut;
      return queuedMs < before.queuedMs ? one : rewritten(one, withDue({ ...after, queuedMs }));
    }),
  },
  {
    name: "pause-ignored",
    about: "the slots of a paused schedule start",
    caughtBy: ["schedule_pause"],
    world: (world) => {
      const armed = withPuts((one) => {
        const schedule = one.value as Schedule | null;
        if (one.table !== SCHEDULES.name || !schedule?.isPaused || schedule.nextMs === null) return one;
        return rewritten(one, { ...schedule, dueMs: startOf(schedule, schedule.nextMs) });
      });
      return withReads("isPaused", false)(armed(world));
    },
  },
  {
    name: "catch-up-without-end",
    about: "a slot starts after its catch-up window",
    caughtBy: ["schedule_slot"],
    world: withReads("catchUpMs", 86_400_000),
  },
  {
    name: "jitter-ignored",
    about: "a slot starts without its jitter",
    caughtBy: ["schedule_slot"],
    world: withReads("jitterMs", 0),
  },
  {
    name: "slot-not-armed",
    about: "a schedule has no due time after its first start",
    caughtBy: ["schedule_late"],
    world: withValues(SCHEDULES, (one) => (one.counts.started > 0 ? { ...one, dueMs: null } : one), "reindex"),
  },
];

const isSlot = ({ table, id }: Put): boolean => table === RUN_RESERVATIONS.name && id.startsWith("@slot/");

const withoutReservation = (change: Change): Change => ({ ...change, puts: change.puts.filter((one) => !isSlot(one)) });

/** A commit that starts a slot, without the record of the schedule, and the commit of that record. */
function parted(change: Change): { readonly start: Change; readonly move: Change | null } {
  const moves = change.puts.filter(({ table }) => table === SCHEDULES.name);
  const isStart = moves.length > 0 && change.puts.some(({ table, expect }) => table === RUNS.name && expect === 0);
  if (!isStart) return { start: change, move: null };
  const start = { ...change, puts: change.puts.filter((one) => !moves.includes(one)) };
  return { start, move: { org: change.org, atMs: change.atMs, puts: moves, guards: [], sends: [], watch: [] } };
}

/** The engine reads another value of one field, and writes the stored one back. */
function withReads<K extends keyof Schedule>(field: K, value: Schedule[K]): Decorator {
  return (world) => {
    const stored = new Map<string, Schedule[K]>();
    const read = <T extends { readonly id: string; readonly value: unknown }>(found: T): T => {
      const schedule = found.value as Schedule;
      stored.set(found.id, schedule[field]);
      return { ...found, value: { ...schedule, [field]: value } };
    };
    const reads = withStore((store) => {
      const load: Store["load"] = async (table, id) => {
        const found = await store.load(table, id);
        return found && table.name === SCHEDULES.name ? read(found) : found;
      };
      const isSchedule = ({ table }: Due): boolean => table === SCHEDULES.name;
      const due: Store["due"] = async (query) =>
        (await store.due(query)).map((one) => (isSchedule(one) ? read(one) : one));
      return { load, due };
    });
    const writes = withPuts((one) => {
      const known = stored.get(one.id);
      const schedule = one.value as Schedule | null;
      if (one.table !== SCHEDULES.name || schedule === null || known === undefined) return one;
      return schedule[field] === value ? { ...one, value: { ...schedule, [field]: known } } : one;
    });
    return reads(writes(world));
  };
}

const rewritten = (one: Put, value: Schedule): Put => ({ ...one, value, to: SCHEDULES.placement(value) });
