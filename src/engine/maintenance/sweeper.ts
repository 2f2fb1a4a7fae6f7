import type { Cancel } from "../../ports/clock.ts";
import type { Due } from "../../ports/store.ts";
import { chainAll } from "../audit/index.ts";
import { publishAll } from "../commit.ts";
import { backlogTopics, drainBacklog } from "../dispatch/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { Gauges } from "../observe/index.ts";
import { stopKilled } from "../safety/index.ts";
import { onDue } from "./due-timers.ts";
import { SlotRecounts } from "./recount-slots.ts";

/**
 * Background maintenance: relays the outbox, fires due timers, drains backlogs, chains audit entries, enforces kill
 * switches and recounts slots. Every process runs it.
 *
 * 1. Each duty runs in bounded batches until nothing is left.
 * 2. Records due within the horizon are claimed by lease and get a timer each, so that they fire at their own time with
 *    the jitter of their policy. Firing everything that is due once per sweep would form waves again. They are claimed
 *    a few at a time, because a long read would delay those that are due meanwhile.
 * 3. A slow record (a hanging kernel) does not delay the next sweep; the number in progress is bounded.
 * 4. A failed duty is left to the next sweep and does not affect the others.
 */
export class Sweeper {
  readonly #engine: RunContext & Needs<"arrivals">;
  readonly #timers = new Set<Cancel>();
  readonly #firing = new Set<Promise<void>>();
  /** Called when the number in progress allows the next batch. */
  #onCalm = (): void => {};
  readonly #gauges = new Gauges();
  readonly #recounts = new SlotRecounts();
  #next: Cancel = () => {};
  #stopped = false;
  #running: Promise<void> = Promise.resolve();
  /** End of the last sweep without a failure. Readiness is progress, not a ping. */
  sweptMs: number;

  constructor(engine: RunContext & Needs<"arrivals">) {
    this.#engine = engine;
    this.sweptMs = engine.world.clock.now();
  }

  start(): void {
    const { clock, random } = this.#engine.world;
    const { everyMs } = this.#engine.settings.current.sweep;
    // The first sweep is early and jittered, so that processes that start together do not sweep together.
    this.#next = clock.after(everyMs * random.next(), () => this.#tick());
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#next();
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    await this.#running;
    await this.settled();
  }

  #tick(): void {
    this.#running = this.sweep().then(() => {
      if (this.#stopped) return;
      const { clock, random } = this.#engine.world;
      const { everyMs } = this.#engine.settings.current.sweep;
      // Jittered, so that a common stall does not synchronise the processes.
      this.#next = clock.after(everyMs * (1 - SPREAD * random.next()), () => this.#tick());
    });
  }

  async sweep(): Promise<void> {
    const parts = {
      outbox: () => this.#outbox(),
      due: () => this.#due(),
      backlog: () => this.#backlog(),
      audit: () => chainAll(this.#engine),
      kills: () => stopKilled(this.#engine),
      slots: () => this.#recounts.sweep(this.#engine),
    };
    const results = await Promise.all(
      Object.entries(parts).map(async ([part, run]) => {
        try {
          await run();
          return true;
        } catch (error) {
          this.#engine.world.log.write("warn", "sweep_failed", { part, error: String(error) });
          return false;
        }
      }),
    );
    if (results.every(Boolean)) this.sweptMs = this.#engine.world.clock.now();
  }

  async #outbox(): Promise<void> {
    const { clock, store, metrics } = this.#engine.world;
    const { outboxAgeMs, batchMax } = this.#engine.settings.current.sweep;
    for (;;) {
      const messages = await store.unsent(clock.now() - outboxAgeMs, batchMax);
      if (messages.length === 0 || this.#stopped) return;
      await publishAll(this.#engine.world, messages);
      metrics.add("cordum_outbox_repairs_total", {}, messages.length);
    }
  }

  async #due(): Promise<void> {
    const { clock, store } = this.#engine.world;
    const { horizonMs, leaseMs, batchMax } = this.#engine.settings.current.sweep;
    const aheadMax = Math.min(AHEAD_MAX, batchMax);
    let limit = aheadMax;
    for (;;) {
      if (this.#stopped || this.#timers.size >= TIMERS_MAX) return;
      const nowMs = clock.now();
      const items = await store.due({ nowMs, untilMs: nowMs + horizonMs, leaseMs, limit });
      if (this.#stopped) return;
      for (const item of items) {
        if (item.dueMs > nowMs) this.#arm(item);
        else this.#fire(item);
      }
      if (this.#firing.size >= batchMax) await new Promise<void>((resolve) => (this.#onCalm = resolve));
      if (items.length < limit) return;
      limit = items.every(({ dueMs }) => dueMs <= nowMs) ? batchMax : aheadMax;
    }
  }

  /** Resolves when all fired records are processed. */
  async settled(): Promise<void> {
    while (this.#firing.size > 0) await Promise.all(this.#firing);
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

  /** After a failure the claim expires and a later sweep takes the record again. */
  #fire(item: Due): void {
    const work = onDue(this.#engine, item)
      .catch((error: unknown) => {
        this.#engine.world.log.write("warn", "timer_failed", { table: item.table, id: item.id, error: String(error) });
      })
      .finally(() => {
        this.#firing.delete(work);
        if (this.#firing.size * 2 < this.#engine.settings.current.sweep.batchMax) this.#onCalm();
      });
    this.#firing.add(work);
  }

  async #backlog(): Promise<void> {
    const topics = await backlogTopics(this.#engine);
    for (const topic of topics.keys()) drainBacklog(this.#engine, topic);
    await this.#gauges.show(this.#engine, topics);
  }
}

/** Jitter as a share of the sweep interval. */
const SPREAD = 0.25;
/** Claimed per step of those that are not due yet: about a millisecond of work. */
const AHEAD_MAX = 100;
const TIMERS_MAX = 100_000;
