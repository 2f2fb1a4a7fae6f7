/**
 * Whoever submits a job wants to hear what the policy says to it. A kernel in another process says it a moment after the
 * job was taken: the answer waits for that.
 *
 * 1. The job is safe before: who does not wait to the end has lost nothing.
 * 2. It waits no longer than one check may take, and not at all while the kernel is known to be away.
 */

import { JOBS, type JobState } from "../../core/model/job.ts";
import type { Engine } from "../../engine/engine.ts";
import { breakerRefusal } from "../../engine/safety/index.ts";

export class Verdicts {
  readonly #engine: Engine;
  /** Who is to be told when something happens to a job. One listener for all, however many they are. */
  readonly #waiting = new Map<string, Set<() => void>>();
  #isListening = false;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** The state of a job that was just taken, once it was decided on; PENDING when that does not come in time. */
  async stateOf(jobId: string): Promise<JobState> {
    const { clock, safety, store } = this.#engine.world;
    if (safety.local || breakerRefusal(this.#engine) !== null) return "PENDING";
    this.#listen();
    const untilMs = clock.now() + this.#engine.settings.current.safety.timeoutMs;
    for (;;) {
      const news = this.#wait(jobId, Math.max(0, untilMs - clock.now()));
      const found = await store.load(JOBS, jobId);
      const isDecided = found === null || found.value.state !== "PENDING" || found.value.wait !== null;
      if (isDecided) news.stop();
      if (isDecided || !(await news.came)) return found?.value.state ?? "PENDING";
    }
  }

  #listen(): void {
    if (this.#isListening) return;
    this.#isListening = true;
    this.#engine.events.subscribe(({ jobId }) => {
      for (const tell of this.#waiting.get(jobId) ?? []) tell();
    });
  }

  /** Whether something happened to the job within so long. */
  #wait(jobId: string, ms: number): { readonly came: Promise<boolean>; stop(): void } {
    let stop = (): void => {};
    const came = new Promise<boolean>((resolve) => {
      const end = (isNews: boolean) => {
        cancel();
        const others = this.#waiting.get(jobId);
        others?.delete(tell);
        if (others?.size === 0) this.#waiting.delete(jobId);
        resolve(isNews);
      };
      const tell = () => end(true);
      const cancel = this.#engine.world.clock.after(ms, () => end(false));
      this.#waiting.set(jobId, (this.#waiting.get(jobId) ?? new Set()).add(tell));
      stop = () => end(false);
    });
    return { came, stop };
  }
}
