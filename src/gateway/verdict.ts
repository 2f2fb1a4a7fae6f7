/**
 * Whoever submits a job wants to hear what the policy says to it. A kernel in another process says it a moment after the
 * job was taken: the answer waits for that.
 *
 * 1. The job is safe before: who does not wait to the end has lost nothing.
 * 2. It waits no longer than one check may take, and not at all while the kernel is known to be away.
 */
import { refusal } from "../flow/breaker.ts";
import type { Flow } from "../flow/flow.ts";
import { JOBS, type JobState } from "../model/job.ts";

/** The state of a job that was just taken, once it was decided on; PENDING when that does not come in time. */
export async function decidedState(flow: Flow, jobId: string): Promise<JobState> {
  const { clock, safety, store } = flow.world;
  if (safety.local || refusal(flow) !== null) return "PENDING";
  const untilMs = clock.now() + flow.settings.current.safety.timeoutMs;
  for (;;) {
    const bell = bellsOf(flow).wait(jobId, Math.max(0, untilMs - clock.now()));
    const found = await store.load(JOBS, jobId);
    const isDecided = found === null || found.value.state !== "PENDING" || found.value.wait !== null;
    if (isDecided) bell.stop();
    if (isDecided || !(await bell.rung)) return found?.value.state ?? "PENDING";
  }
}

/** One listener for all that wait, however many they are. */
class Bells {
  readonly #clock: Flow["world"]["clock"];
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(flow: Flow) {
    this.#clock = flow.world.clock;
    flow.notices.listen(({ jobId }) => {
      for (const ring of this.#waiting.get(jobId) ?? []) ring();
    });
  }

  /** Rings when something has happened to the job; false when nothing has for so long. */
  wait(jobId: string, ms: number): { readonly rung: Promise<boolean>; stop(): void } {
    let stop = (): void => {};
    const rung = new Promise<boolean>((resolve) => {
      const end = (isRung: boolean) => {
        cancel();
        const others = this.#waiting.get(jobId);
        others?.delete(ring);
        if (others?.size === 0) this.#waiting.delete(jobId);
        resolve(isRung);
      };
      const ring = () => end(true);
      const cancel = this.#clock.after(ms, () => end(false));
      this.#waiting.set(jobId, (this.#waiting.get(jobId) ?? new Set()).add(ring));
      stop = () => end(false);
    });
    return { rung, stop };
  }
}

const BELLS = new WeakMap<Flow, Bells>();

function bellsOf(flow: Flow): Bells {
  const known = BELLS.get(flow);
  if (known) return known;
  const bells = new Bells(flow);
  BELLS.set(flow, bells);
  return bells;
}
