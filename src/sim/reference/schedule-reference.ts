import type { Overlap, Schedule } from "../../core/schedule/schedule.ts";
import type { Checker } from "../checks/violations.ts";

/**
 * The reference model of one schedule. Its input are the audit entries of the schedule's commits; each must be legal in the state
 * of the model, and the record of the commit must equal that state.
 */
export class RefSchedule {
  readonly uid: string;
  /** The first slot without a fate. */
  next: number;
  queued: number | null = null;
  isPaused: boolean;
  /** The run of each slot. */
  readonly runs = new Map<number, string>();
  readonly #counts: Record<keyof Schedule["counts"], number> = { started: 0, skipped: 0, missed: 0, failed: 0 };
  #backfill: { next: number; readonly until: number } | null = null;
  #handled = 0;
  #periodMs: number;

  constructor({ uid, timing, createdMs, isPaused }: Schedule) {
    this.uid = uid;
    this.isPaused = isPaused;
    this.#periodMs = periodOf(timing);
    this.next = this.#slotAfter(createdMs);
  }

  /** The problems of one entry. */
  apply(entry: RefEntry, seen: RefSeen): readonly RefProblem[] {
    switch (entry.what) {
      case "started":
        return this.#start(entry, seen);
      case "triggered":
        this.#counts.started += 1;
        return seen.newRuns.has(entry.run) ? [] : [slotProblem(`trigger without run ${entry.run}`)];
      case "queued":
        return this.#queue(entry.slot, seen);
      case "skipped":
      case "missed":
        return this.#leaveOut(entry, seen);
      case "failed":
        return [slotProblem(`slot ${entry.slot} failed, but its workflow exists`)];
      case "applied":
        return this.#applied(seen);
      case "paused":
        this.#setPaused(true, seen.record);
        return [];
      case "resumed":
        this.#setPaused(false, seen.record);
        return [];
      case "backfill started":
        this.#backfill = { next: this.#slotAfter(entry.from - 1), until: entry.until };
        return [];
      case "backfill completed":
      case "backfill cancelled":
        this.#backfill = null;
        return [];
      default:
        return [slotProblem(`unknown entry ${entry.what}`)];
    }
  }

  /** How the record differs; the model then continues from the record. */
  compare(record: Schedule): readonly RefProblem[] {
    this.#passExisting(record);
    const is = describe({ ...record, next: record.nextMs, queued: record.queuedMs ?? null });
    const expected = describe({ next: this.next, queued: this.queued, counts: this.#counts });
    const problems: RefProblem[] = is === expected ? [] : [slotProblem(`${is}; expected ${expected}`)];
    if (record.isPaused !== this.isPaused) {
      const [now, then] = [record.isPaused, this.isPaused].map((isPaused) => (isPaused ? "paused" : "running"));
      problems.push({ checker: "schedule_pause", hint: `is ${now}; expected ${then}` });
    }
    if (problems.length === 0) return [];
    this.next = record.nextMs ?? this.next;
    this.queued = record.queuedMs ?? null;
    this.isPaused = record.isPaused;
    Object.assign(this.#counts, record.counts);
    return problems;
  }

  #start({ slot, run, isBackfill }: RefEntry, seen: RefSeen): readonly RefProblem[] {
    const problems: RefProblem[] = [];
    const earlier = this.runs.get(slot);
    const { record } = seen;
    if (earlier !== undefined) problems.push(slotProblem(`slot ${slot} started as ${earlier}, then as ${run}`));
    else if (isBackfill) problems.push(...this.#startBackfilled(slot));
    else if (this.isPaused) problems.push({ checker: "schedule_pause", hint: `slot ${slot} started while paused` });
    else if (slot === this.queued) this.queued = null;
    else if (slot === this.next && this.queued === null) {
      this.#pass(slot, slot);
      const lateMs = (record?.starts[0]?.atMs ?? 0) - seen.startOf(slot);
      if (record && lateMs > record.catchUpMs)
        problems.push(
          slotProblem(`slot ${slot} started ${lateMs} ms late; the catch-up window is ${record.catchUpMs} ms`),
        );
    } else problems.push(slotProblem(`slot ${slot} started, but the next one is ${this.queued ?? this.next}`));
    // A backfill does not wait for the jitter.
    const earlyMs = (isBackfill ? slot : seen.startOf(slot)) - seen.nowMs;
    if (earlyMs > 0) problems.push(slotProblem(`slot ${slot} started ${earlyMs} ms early`));
    if (seen.newRuns.get(run) !== slot) problems.push(slotProblem(`slot ${slot} started without a run of it`));
    const open = seen.spec.overlap === "allow" ? undefined : seen.openRun();
    if (open !== undefined)
      problems.push({ checker: "schedule_overlap", hint: `slot ${slot} started while ${open} is open` });
    this.runs.set(slot, run);
    this.#counts.started += 1;
    return problems;
  }

  #startBackfilled(slot: number): readonly RefProblem[] {
    const backfill = this.#backfill;
    // Slots with a run are passed over without an entry.
    while (backfill && backfill.next < slot && this.runs.has(backfill.next))
      backfill.next = this.#slotAfter(backfill.next);
    if (!backfill || slot !== backfill.next || slot > backfill.until)
      return [slotProblem(`slot ${slot} started by a backfill that is at ${backfill?.next} until ${backfill?.until}`)];
    backfill.next = this.#slotAfter(slot);
    return [];
  }

  #queue(slot: number, seen: RefSeen): readonly RefProblem[] {
    const isLegal = QUEUING.includes(seen.spec.overlap) && slot === this.next && this.queued === null;
    this.queued = slot;
    this.#pass(slot, slot);
    const hint = `slot ${slot} queued`;
    return isLegal && seen.wasBusy(seen.startOf(slot)) ? [] : [{ checker: "schedule_overlap", hint }];
  }

  #leaveOut({ what, from, until, slots }: RefEntry, seen: RefSeen): readonly RefProblem[] {
    const { record, spec } = seen;
    const kind = what as "skipped" | "missed";
    this.#counts[kind] += slots;
    if (kind === "missed" && from === this.queued) {
      this.queued = null;
      return [];
    }
    const isQueued = this.queued !== null;
    const lastMs = this.next + (slots - 1) * this.#periodMs;
    const isNext = from === this.next && until === lastMs;
    this.#pass(from, until);
    if (!isNext) return [slotProblem(`left out ${slots} slots from ${from} to ${until}; expected until ${lastMs}`)];
    if (this.isPaused) return [{ checker: "schedule_pause", hint: `slot ${from} ${kind} while paused` }];
    if (kind === "missed") {
      const isOld = !record || seen.startOf(until) + spec.catchUpMs < (record.leftOut?.atMs ?? 0);
      return isOld ? [] : [slotProblem(`slot ${until} missed within its catch-up window`)];
    }
    const isBusy = isQueued || (spec.overlap === "skip" && seen.wasBusy(seen.startOf(until)));
    return isBusy ? [] : [{ checker: "schedule_overlap", hint: `slot ${until} skipped, but no run was open` }];
  }

  #applied({ record }: RefSeen): readonly RefProblem[] {
    if (!record) return [];
    const periodMs = periodOf(record.timing);
    if (periodMs !== this.#periodMs) {
      this.#periodMs = periodMs;
      this.next = this.#slotAfter(Math.max(record.updatedMs, this.#handled));
    }
    return [];
  }

  #setPaused(isPaused: boolean, record: Schedule | null): void {
    if (isPaused && this.queued !== null) {
      this.queued = null;
      this.#counts.skipped += 1;
    }
    this.isPaused = isPaused;
    if (!isPaused && record) this.next = this.#slotAfter(Math.max(record.updatedMs, this.#handled));
  }

  #pass(from: number, until: number): void {
    this.#handled = Math.max(this.#handled, from, until);
    this.next = this.#slotAfter(until);
  }

  /** A slot that has a run of a backfill needs no other. */
  #passExisting({ nextMs, queuedMs }: Schedule): void {
    while (nextMs !== null && this.next < nextMs && this.runs.has(this.next)) this.#pass(this.next, this.next);
    if (this.queued !== null && queuedMs === undefined && this.runs.has(this.queued)) this.queued = null;
  }

  #slotAfter(afterMs: number): number {
    return (Math.floor(afterMs / this.#periodMs) + 1) * this.#periodMs;
  }
}

/** An audit entry with its facts as numbers. */
export interface RefEntry {
  readonly what: string;
  readonly slot: number;
  readonly run: string;
  readonly isBackfill: boolean;
  readonly from: number;
  readonly until: number;
  readonly slots: number;
}

/** What else is known at the commit. */
export interface RefSeen {
  /** As committed; null if the commit does not write it. */
  readonly record: Schedule | null;
  /** The latest record. */
  readonly spec: Schedule;
  /** The latest time that any process may have. */
  readonly nowMs: number;
  /** The runs that the commit creates with their slots; null for a trigger. */
  readonly newRuns: ReadonlyMap<string, number | null>;
  startOf(slot: number): number;
  /** An earlier run of the schedule that is open. */
  openRun(): string | undefined;
  /** Whether a run of the schedule was open then, or later. */
  wasBusy(sinceMs: number): boolean;
}

export interface RefProblem {
  readonly checker: Extract<Checker, `schedule_${string}`>;
  readonly hint: string;
}

const slotProblem = (hint: string): RefProblem => ({ checker: "schedule_slot", hint });

const QUEUING: readonly Overlap[] = ["queue", "cancel"];

/** The simulated schedules are due at the multiples of one interval. */
function periodOf(timing: Schedule["timing"]): number {
  if (timing.kind === "every") return timing.everyMs;
  if (timing.cron === "* * * * *") return 60_000;
  throw new Error(`the model does not know \`${timing.cron}\``);
}

function describe(state: Pick<Schedule, "counts"> & { readonly next: number | null; readonly queued: number | null }) {
  const { started, skipped, missed, failed } = state.counts;
  const counts = `${started} started, ${skipped} skipped, ${missed} missed, ${failed} failed`;
  return `next ${state.next}, queued ${state.queued}, ${counts}`;
}
