import {
  type Backfill,
  type LeftOutKind,
  type Schedule,
  type StartCause,
  type StartWait,
  slotAfter,
  startOf,
  withDue,
} from "./schedule.ts";

/** What a schedule does next. `next` is the record after it, without the effect of the start. */
export type ScheduleAction =
  | { readonly kind: "rest" }
  | { readonly kind: "save"; readonly next: Schedule; readonly events: readonly SlotEvent[]; readonly cancels: boolean }
  | {
      readonly kind: "start";
      readonly next: Schedule;
      readonly events: readonly SlotEvent[];
      readonly slotMs: number;
      readonly cause: Exclude<StartCause, "trigger">;
    };

/** Slots that were left out or queued by one decision, or the end of a backfill. */
export type SlotEvent =
  | {
      readonly what: LeftOutKind;
      readonly slots: number;
      readonly fromMs: number;
      readonly untilMs: number;
      readonly why: string;
    }
  | { readonly what: "queued"; readonly slotMs: number }
  | { readonly what: "backfill completed"; readonly backfill: Backfill };

export interface ScheduleContext {
  readonly nowMs: number;
  /** Those of `schedule.open` that are open; ignored where runs may overlap. */
  readonly open: readonly string[];
}

/**
 * Decides one action: to leave slots out, to queue one, or to start one. Slots older than the catch-up window are missed. The
 * caller commits the action and decides again.
 */
export function decideSchedule(schedule: Schedule, { nowMs, open }: ScheduleContext): ScheduleAction {
  const draft = new Draft(schedule, nowMs, open);
  const start = (schedule.isPaused ? null : (draft.queued() ?? draft.next())) ?? draft.backfill();
  return draft.action(start);
}

interface Start {
  readonly slotMs: number;
  readonly cause: "slot" | "backfill";
}

class Draft {
  #now: Schedule;
  readonly #before: Schedule;
  readonly #nowMs: number;
  readonly #isBusy: boolean;
  readonly #events: SlotEvent[] = [];
  #cancels = false;

  constructor(schedule: Schedule, nowMs: number, open: readonly string[]) {
    this.#before = schedule;
    this.#nowMs = nowMs;
    this.#isBusy = schedule.overlap !== "allow" && open.length > 0;
    this.#now = schedule.overlap === "allow" || open.length === schedule.open.length ? schedule : { ...schedule, open };
  }

  action(start: Start | null): ScheduleAction {
    const next = withDue(this.#now);
    if (start) return { kind: "start", next, events: this.#events, ...start };
    const isChanged = this.#events.length > 0 || next.dueMs !== this.#before.dueMs;
    return isChanged ? { kind: "save", next, events: this.#events, cancels: this.#cancels } : { kind: "rest" };
  }

  /** The queued slot, once no run is open. */
  queued(): Start | null {
    const { queuedMs, wait, catchUpMs } = this.#now;
    if (queuedMs === undefined) return null;
    if (this.#isBusy) {
      if ((this.#now.checkMs ?? 0) > this.#nowMs) return null;
      this.#set({ checkMs: this.#nowMs + CHECK_MS });
      // Again: the process that queued the slot may have died before it cancelled the run.
      this.#cancels = this.#now.overlap === "cancel";
      return null;
    }
    if (wait && this.#nowMs > wait.sinceMs + catchUpMs) {
      this.#leaveOut("missed", 1, queuedMs, queuedMs, wait.why);
      this.#now = withoutQueue(this.#now);
      return null;
    }
    return wait && wait.untilMs > this.#nowMs ? null : { slotMs: queuedMs, cause: "slot" };
  }

  /** The next slot that is to start now; handles those before it. */
  next(): Start | null {
    this.#missOld();
    for (let slots = 0; slots < SLOTS_MAX; slots++) {
      const { nextMs, queuedMs, overlap, wait } = this.#now;
      // An old one is left for the next decision.
      if (nextMs === null || startOf(this.#now, nextMs) > this.#nowMs || this.#isOld(nextMs)) return null;
      if (queuedMs !== undefined) this.#leaveOut("skipped", 1, nextMs, nextMs, "another slot is queued");
      else if (!this.#isBusy) {
        return wait && wait.untilMs > this.#nowMs ? null : { slotMs: nextMs, cause: "slot" };
      } else if (overlap === "skip") this.#leaveOut("skipped", 1, nextMs, nextMs, this.#openText());
      else this.#queue(nextMs);
      this.#move(nextMs);
    }
    return null;
  }

  backfill(): Start | null {
    const { backfill } = this.#now;
    if (backfill === undefined || backfill.dueMs > this.#nowMs) return null;
    const { nextMs, untilMs } = backfill;
    if (nextMs === null || nextMs > untilMs) {
      const { backfill: _, ...rest } = this.#now;
      this.#now = rest;
      this.#events.push({ what: "backfill completed", backfill });
      return null;
    }
    if (!this.#isBusy) return { slotMs: nextMs, cause: "backfill" };
    this.#set({ backfill: { ...backfill, isBlocked: true, dueMs: this.#nowMs + CHECK_MS } });
    return null;
  }

  /** Slots whose catch-up window has passed. */
  #missOld(): void {
    const { catchUpMs, jitterMs, timing, wait } = this.#now;
    const why = wait?.why ?? "no control plane started it within the catch-up window";
    let slots = 0;
    let [firstMs, lastMs] = [0, 0];
    const take = (slotMs: number, count: number) => {
      if (slots === 0) firstMs = slotMs;
      lastMs = slotMs;
      slots += count;
    };
    if (timing.kind === "every" && this.#now.nextMs !== null) {
      // Without a loop over slots: there are 31 million seconds in a year.
      const { everyMs } = timing;
      const sure = Math.floor((this.#nowMs - catchUpMs - jitterMs - 1 - this.#now.nextMs) / everyMs) + 1;
      if (sure > 0) {
        take(this.#now.nextMs, 1);
        take(this.#now.nextMs + (sure - 1) * everyMs, sure - 1);
        this.#move(lastMs);
      }
    }
    for (let seen = 0; seen < SLOTS_MAX; seen++) {
      const { nextMs } = this.#now;
      if (nextMs === null || !this.#isOld(nextMs)) break;
      take(nextMs, 1);
      this.#move(nextMs);
    }
    if (slots === 0) return;
    this.#leaveOut("missed", slots, firstMs, lastMs, why);
    if (this.#now.queuedMs === undefined) {
      const { wait: _, ...rest } = this.#now;
      this.#now = rest;
    }
  }

  #isOld(slotMs: number): boolean {
    return startOf(this.#now, slotMs) + this.#now.catchUpMs < this.#nowMs;
  }

  #queue(slotMs: number): void {
    this.#set({ queuedMs: slotMs, checkMs: this.#nowMs + CHECK_MS });
    this.#events.push({ what: "queued", slotMs });
    this.#cancels = this.#now.overlap === "cancel";
  }

  #leaveOut(kind: LeftOutKind, slots: number, fromMs: number, untilMs: number, why: string): void {
    this.#now = leftOut(this.#now, { kind, slots, slotMs: untilMs, atMs: this.#nowMs, why });
    const last = this.#events.at(-1);
    if (last?.what === kind && last.why === why) {
      this.#events[this.#events.length - 1] = { ...last, slots: last.slots + slots, untilMs };
    } else this.#events.push({ what: kind, slots, fromMs, untilMs, why });
  }

  #openText(): string {
    return `run \`${this.#now.open.at(-1)}\` is open`;
  }

  #move(handledMs: number): void {
    this.#set({ nextMs: slotAfter(this.#now.timing, handledMs), handledMs: Math.max(handledMs, this.#now.handledMs) });
  }

  #set(fields: Partial<Schedule>): void {
    this.#now = { ...this.#now, ...fields };
  }
}

/** After the start of a slot. */
export function afterStart(
  schedule: Schedule,
  {
    runId,
    slotMs,
    cause,
    atMs,
  }: { readonly runId: string; readonly slotMs: number; readonly cause: StartCause; readonly atMs: number },
): Schedule {
  return withDue(advance(recordStart(schedule, { runId, slotMs, cause, atMs }), slotMs, cause, "started", atMs));
}

/** After a start by hand, which is no slot. */
export const afterTrigger = (schedule: Schedule, runId: string, atMs: number): Schedule =>
  withDue(recordStart(schedule, { runId, slotMs: null, cause: "trigger", atMs }));

function recordStart(schedule: Schedule, start: Schedule["starts"][number]): Schedule {
  return {
    ...schedule,
    open: [...schedule.open, start.runId].slice(-OPEN_MAX),
    starts: [start, ...schedule.starts].slice(0, STARTS_MAX),
    counts: { ...schedule.counts, started: schedule.counts.started + 1 },
  };
}

/** The slot has a run already: of a backfill, or of a commit whose response was lost. */
export const afterExisting = (schedule: Schedule, slotMs: number, cause: StartCause, atMs: number): Schedule =>
  withDue(advance(schedule, slotMs, cause, "existing", atMs));

/** The run cannot be created, whenever it is tried. */
export function afterFailure(
  schedule: Schedule,
  slotMs: number,
  cause: StartCause,
  why: string,
  atMs: number,
): Schedule {
  const left = leftOut(schedule, { kind: "failed", slots: 1, slotMs, atMs, why });
  return withDue(advance(left, slotMs, cause, "failed", atMs));
}

/** The start was refused for now: it is retried with full jitter. `random` is in [0, 1). */
export function afterRefusal(
  schedule: Schedule,
  cause: StartCause,
  why: string,
  atMs: number,
  random: number,
): Schedule {
  const known = cause === "backfill" ? schedule.backfill?.wait : schedule.wait;
  const attempts = (known?.attempts ?? 0) + 1;
  const highMs = Math.min(RETRY_MS_MIN * 2 ** Math.min(attempts, 10), RETRY_MS_MAX);
  const untilMs = atMs + Math.round(RETRY_MS_MIN + random * (highMs - RETRY_MS_MIN));
  const wait: StartWait = { why, attempts, untilMs, sinceMs: known?.sinceMs ?? atMs };
  const { backfill } = schedule;
  if (cause !== "backfill") return withDue({ ...schedule, wait });
  return withDue({ ...schedule, ...(backfill && { backfill: { ...backfill, wait, dueMs: untilMs } }) });
}

function advance(
  schedule: Schedule,
  slotMs: number,
  cause: StartCause,
  result: "started" | "existing" | "failed",
  atMs: number,
): Schedule {
  const { timing, backfill } = schedule;
  if (cause === "backfill") {
    if (!backfill) return schedule;
    const { wait: _, isBlocked: __, ...rest } = backfill;
    const nextMs = slotAfter(timing, slotMs);
    const dueMs = atMs + (result === "started" ? backfill.paceMs : 0);
    return { ...schedule, backfill: { ...rest, nextMs, dueMs, [result]: backfill[result] + 1 } };
  }
  if (slotMs === schedule.queuedMs) return withoutQueue(schedule);
  const { wait: _, ...rest } = schedule;
  return { ...rest, nextMs: slotAfter(timing, slotMs), handledMs: Math.max(slotMs, schedule.handledMs) };
}

function withoutQueue(schedule: Schedule): Schedule {
  const { queuedMs: _, checkMs: __, wait: ___, ...rest } = schedule;
  return rest;
}

function leftOut(
  schedule: Schedule,
  { slots, ...left }: NonNullable<Schedule["leftOut"]> & { readonly slots: number },
): Schedule {
  const counts = { ...schedule.counts, [left.kind]: schedule.counts[left.kind] + slots };
  return { ...schedule, leftOut: left, counts };
}

/** A queued slot and a waiting backfill look for the end of the open run at this interval; the end itself wakes them. */
export const CHECK_MS = 5_000;
/** Slots that one decision handles. */
const SLOTS_MAX = 2_000;
const OPEN_MAX = 32;
const STARTS_MAX = 10;
const RETRY_MS_MIN = 1_000;
const RETRY_MS_MAX = 30_000;
