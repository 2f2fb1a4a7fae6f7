import { percentile } from "../frame/figures.ts";

/**
 * Tracks every job by its number: submission time, processing count, end count.
 *
 * Each submitted job must be processed once and end once; of a run, each step must be processed once, in order
 * unless its steps run at the same time. Typed arrays
 * keep a million open jobs from slowing down the garbage collector of the measured process.
 */
export class Ledger {
  #submittedMs = new Float64Array(CAPACITY);
  /** Bit n: step n was processed. Bit n + 4: step n was processed again. */
  #worked = new Uint8Array(CAPACITY);
  #ended = new Uint8Array(CAPACITY);
  #latencies: number[] | null = null;
  #unknown = 0;
  #outOfOrder = 0;
  readonly #stepsEach: number;
  readonly #isOrdered: boolean;
  submitted = 0;
  open = 0;

  constructor(stepsEach = 1, isOrdered = true) {
    if (stepsEach > STEPS_MAX) throw new Error(`a ledger supports up to ${STEPS_MAX} steps, not ${stepsEach}`);
    this.#stepsEach = stepsEach;
    this.#isOrdered = isOrdered;
  }

  submit(nowMs: number): number {
    const n = this.submitted++;
    if (n === this.#worked.length) this.#grow();
    this.#submittedMs[n] = nowMs;
    this.open++;
    return n;
  }

  work(n: number, step = 0): void {
    if (!this.#isKnown(n)) return;
    const before = this.#worked[n] ?? 0;
    const isAgain = (before & (1 << step)) !== 0;
    if (this.#isOrdered && step > 0 && (before & (1 << (step - 1))) === 0) this.#outOfOrder++;
    this.#worked[n] = before | (1 << (isAgain ? step + STEPS_MAX : step));
  }

  /** True the first time. `isTimed` is false for a delayed job, whose latency is not measured. */
  end(n: number, nowMs: number, isTimed = true): boolean {
    if (!this.#isKnown(n)) return false;
    const times = this.#ended[n] ?? 0;
    this.#ended[n] = Math.min(255, times + 1);
    if (times > 0) return false;
    this.open--;
    if (isTimed) this.#latencies?.push(nowMs - (this.#submittedMs[n] ?? 0));
    return true;
  }

  /** Starts to record the latencies of jobs that end. */
  beginWindow(): void {
    this.#latencies = [];
  }

  endWindow(): { jobs: number; p50Ms: number; p95Ms: number } {
    const latencies = this.#latencies ?? [];
    this.#latencies = null;
    return { jobs: latencies.length, p50Ms: percentile(latencies, 0.5), p95Ms: percentile(latencies, 0.95) };
  }

  /**
   * Violations of exactly-once processing. `isWorkHere` is false when another process runs the worker; `isDrained` is false
   * when jobs may still wait.
   */
  faults({ isWorkHere, isDrained }: { isWorkHere: boolean; isDrained: boolean }): string[] {
    const all = (1 << this.#stepsEach) - 1;
    const wrong = { unended: 0, endedAgain: 0, unworked: 0, workedAgain: 0 };
    for (let n = 0; n < this.submitted; n++) {
      const ended = this.#ended[n] ?? 0;
      const worked = this.#worked[n] ?? 0;
      if (ended === 0 && isDrained) wrong.unended++;
      if (ended > 1) wrong.endedAgain++;
      if ((worked & all) !== all && isWorkHere && (isDrained || ended > 0)) wrong.unworked++;
      if (worked > all && isWorkHere) wrong.workedAgain++;
    }
    const messages: readonly (readonly [number, string])[] = [
      [wrong.unended, "never ended"],
      [wrong.endedAgain, "ended more than once"],
      [wrong.unworked, this.#stepsEach === 1 ? "were never processed" : "have unprocessed steps"],
      [wrong.workedAgain, "were processed more than once"],
      [this.#outOfOrder, "have a step that was processed out of order"],
      [this.#unknown, "were not submitted"],
    ];
    const things = this.#stepsEach === 1 ? "jobs" : "runs";
    return messages
      .filter(([count]) => count > 0)
      .map(([count, what]) => `${count} of ${this.submitted} ${things} ${what}`);
  }

  #isKnown(n: number): boolean {
    if (Number.isInteger(n) && n >= 0 && n < this.submitted) return true;
    this.#unknown++;
    return false;
  }

  #grow(): void {
    const length = this.#worked.length * 2;
    this.#submittedMs = extended(this.#submittedMs, new Float64Array(length));
    this.#worked = extended(this.#worked, new Uint8Array(length));
    this.#ended = extended(this.#ended, new Uint8Array(length));
  }
}

function extended<T extends Float64Array | Uint8Array>(old: T, fresh: T): T {
  fresh.set(old);
  return fresh;
}

const CAPACITY = 1 << 21;
const STEPS_MAX = 4;
