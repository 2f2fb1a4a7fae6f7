import { JOBS, type Job } from "../core/model/job.ts";
import type { Due, Versioned } from "../ports/store.ts";
import type { Needs } from "./engine.ts";

/**
 * In-process timers for records that become due before the next sweep. Without them such records would fire late and
 * together. The due time is on the record: if this process dies, the sweeper of another one fires it.
 */
export class Timers {
  readonly #engine: Needs<"world" | "settings" | "tasks">;
  readonly #onDue: (due: Due) => Promise<void>;

  constructor(engine: Needs<"world" | "settings" | "tasks">, onDue: (due: Due) => Promise<void>) {
    this.#engine = engine;
    this.#onDue = onDue;
  }

  arm(job: Versioned<Job>): void {
    const { world, settings } = this.#engine;
    const { dueMs } = job.value;
    const delayMs = dueMs - world.clock.now();
    if (delayMs > settings.current.sweep.everyMs) return;
    const due: Due = { ...job, table: JOBS.name, dueMs };
    this.run(due, Math.max(0, delayMs), async () => {
      // The clock may approach a shared time that is behind, so less than the delay has passed on it. Fired early, a job that
      // waits for longer than its deadline would be retried instead of timed out.
      if (world.clock.now() < dueMs) this.arm(job);
      else await this.#onDue(due);
    });
  }

  /** Runs the work after the delay. A failure is logged; the sweeper repeats what is still due. */
  run({ id }: Due, delayMs: number, work: () => Promise<void>): void {
    const { world, tasks } = this.#engine;
    tasks.after(world.clock, delayMs, () => {
      const done = work().catch((error: unknown) => {
        world.log.write("warn", "timer_deferred", { id, error: String(error) });
      });
      tasks.track(done);
    });
  }
}
