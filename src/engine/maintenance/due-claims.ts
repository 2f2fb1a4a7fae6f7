import { SCHEDULES } from "../../core/schedule/schedule.ts";
import type { Cancel } from "../../ports/clock.ts";
import type { Due } from "../../ports/store.ts";
import type { Needs, RunContext } from "../engine.ts";
import { isExpiry, onDue } from "./due-timers.ts";

/**
 * Claims due records and runs their timer handlers.
 *
 * 1. Records due within the horizon are claimed by lease and get a timer each, so that they fire at their own time with
 *    the jitter of their policy. Firing everything that is due once per pass would form waves again. They are claimed a
 *    few at a time, because a long read would delay those that are due meanwhile.
 * 2. A slow record (a hanging kernel) does not delay the next pass; the number in progress is bounded.
 * 3. Records whose retention has ended are removed by a loop of their own with a bounded queue. Any number of them can be due
 *    after an outage, and they are the oldest. So records that became due in the last seconds are claimed separately, and
 *    older ones only while the queue has room: leases and deadlines are in time whatever is left to remove.
 * 4. Many schedules are due at the same full hour. At most `SCHEDULES_AT_ONCE` are handled at a time: the commits of a burst
 *    would otherwise wait for each other in the store until they time out.
 */
export class DueClaims {
  readonly #engine: RunContext & Needs<"arrivals" | "admissionLimiter">;
  readonly #timers = new Set<Cancel>();
  readonly #firing = new Set<Promise<void>>();
  /** Due schedules by id. A record that is claimed again replaces the earlier claim. */
  readonly #schedules = new Map<string, { readonly item: Due; readonly resolve: () => void }>();
  #schedulesBusy = 0;
  #expired: Due[] = [];
  /** Called when the number in progress allows the next batch. */
  #onCalm = (): void => {};
  #isOverdue = false;
  #isStopped = false;

  constructor(engine: RunContext & Needs<"arrivals" | "admissionLimiter">) {
    this.#engine = engine;
  }

  stop(): void {
    this.#isStopped = true;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    for (const { resolve } of this.#schedules.values()) resolve();
    this.#schedules.clear();
  }

  /** Resolves when all fired records are processed. */
  async settled(): Promise<void> {
    while (this.#firing.size > 0) await Promise.all(this.#firing);
  }

  /** Claims one batch. Null when nothing is left, otherwise the age of the last timer claimed. */
  async claim(): Promise<number | null> {
    const { clock, store } = this.#engine.world;
    const { horizonMs, leaseMs, batchMax } = this.#engine.settings.current.sweep;
    if (this.#firing.size >= batchMax) await new Promise<void>((resolve) => (this.#onCalm = resolve));
    if (this.#isStopped || this.#timers.size >= TIMERS_MAX) return null;
    const nowMs = clock.now();
    const limit = this.#isOverdue ? batchMax : Math.min(AHEAD_MAX, batchMax);
    const oldLimit = this.#expired.length > EXPIRED_MAX - batchMax ? 0 : batchMax;
    const fromMs = nowMs - RECENT_MS;
    // In one tick: the store answers both with one read. If one fails, the records of the other are claimed all the same.
    const claims = await Promise.allSettled([
      store.due({ nowMs, fromMs, untilMs: nowMs + horizonMs, leaseMs, limit }),
      oldLimit === 0 ? [] : store.due({ nowMs, untilMs: fromMs - 1, leaseMs, limit: oldLimit }),
    ]);
    if (this.#isStopped) return null;
    const [items = [], older = []] = claims.map((claim) => (claim.status === "fulfilled" ? claim.value : []));
    for (const item of [...items, ...older]) {
      if (item.dueMs > nowMs) this.#arm(item);
      else this.#fire(item);
    }
    for (const claim of claims) if (claim.status === "rejected") throw claim.reason;
    const hasMore = items.length === limit;
    this.#isOverdue = hasMore && items.every(({ dueMs }) => dueMs <= nowMs);
    const hasOlder = oldLimit > 0 && older.length === oldLimit;
    if (!hasMore && !hasOlder) return null;
    const last = hasOlder ? older.findLast((item) => !isExpiry(item)) : items.at(-1);
    return Math.max(0, clock.now() - (last?.dueMs ?? nowMs));
  }

  /** Removes one batch of records whose retention has ended. */
  async removeExpired(): Promise<number | null> {
    if (this.#isStopped) return null;
    await Promise.all(this.#expired.splice(0, EXPIRED_PER_PASS).map((item) => this.#handle(item)));
    const [oldest] = this.#expired;
    return oldest ? Math.max(0, this.#engine.world.clock.now() - oldest.dueMs) : null;
  }

  #arm(item: Due): void {
    const { clock } = this.#engine.world;
    const cancel = clock.after(item.dueMs - clock.now(), () => {
      this.#timers.delete(cancel);
      if (clock.now() < item.dueMs) this.#arm(item);
      else this.#fire(item);
    });
    this.#timers.add(cancel);
  }

  #fire(item: Due): void {
    if (isExpiry(item)) {
      // Without room it stays claimed until its lease ends, and is then one of the older ones.
      if (this.#expired.length < EXPIRED_MAX) this.#expired.push(item);
      return;
    }
    const { clock, metrics } = this.#engine.world;
    metrics.observe("cordum_timer_lateness_seconds", Math.max(0, clock.now() - item.dueMs) / 1_000);
    const handled = item.table === SCHEDULES.name ? this.#queueSchedule(item) : this.#handle(item);
    const work = handled.finally(() => {
      this.#firing.delete(work);
      if (this.#firing.size * 2 < this.#engine.settings.current.sweep.batchMax) this.#onCalm();
    });
    this.#firing.add(work);
  }

  #queueSchedule(item: Due): Promise<void> {
    return new Promise((resolve) => {
      this.#schedules.get(item.id)?.resolve();
      this.#schedules.set(item.id, { item, resolve });
      this.#handleSchedules();
    });
  }

  #handleSchedules(): void {
    for (const [id, { item, resolve }] of this.#schedules) {
      if (this.#schedulesBusy >= SCHEDULES_AT_ONCE) return;
      this.#schedules.delete(id);
      this.#schedulesBusy += 1;
      void this.#handle(item).finally(() => {
        this.#schedulesBusy -= 1;
        resolve();
        this.#handleSchedules();
      });
    }
  }

  /** After a failure the claim expires and a later pass takes the record again. */
  async #handle(item: Due): Promise<void> {
    try {
      await onDue(this.#engine, item);
    } catch (error) {
      this.#engine.world.log.write("warn", "timer_failed", { table: item.table, id: item.id, error: String(error) });
    }
  }
}

/** Claimed per step of those that are not due yet: about a millisecond of work. */
const AHEAD_MAX = 100;
const TIMERS_MAX = 100_000;
const SCHEDULES_AT_ONCE = 256;
/** A due time before that is the result of an outage, or the end of a retention that was not handled yet. */
const RECENT_MS = 10_000;
const EXPIRED_PER_PASS = 100;
/** Leaves room for the largest batch. */
const EXPIRED_MAX = 20_000;
