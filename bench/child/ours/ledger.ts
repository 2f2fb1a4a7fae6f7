import { percentile } from "../../frame/figures.ts";

/**
 * Every job by its number: when it was submitted, how often it was worked on, how often it ended.
 *
 * 1. Exactly once means: each submitted job was worked on once and ended once, and nothing else was. Of a run, each of its
 *    steps was worked on once, in their order.
 * 2. Typed arrays: a million open jobs must not weigh on the collector of the process that is being measured.
 */
export class Ledger {
  #submittedMs = new Float64Array(CAPACITY);
  /** A bit for each step that was worked on, and one four higher for each that was worked on again. */
  #worked = new Uint8Array(CAPACITY);
  #ended = new Uint8Array(CAPACITY);
  #latencies: number[] | null = null;
  #strangers = 0;
  #outOfOrder = 0;
  readonly #stepsEach: number;
  /** Numbers given out so far. */
  submitted = 0;
  /** Jobs that have not ended. */
  open = 0;

  constructor(stepsEach = 1) {
    if (stepsEach > STEPS_MAX) throw new Error(`a ledger keeps books of ${STEPS_MAX} steps, not of ${stepsEach}`);
    this.#stepsEach = stepsEach;
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
    if (step > 0 && (before & (1 << (step - 1))) === 0) this.#outOfOrder++;
    this.#worked[n] = before | (1 << (isAgain ? step + STEPS_MAX : step));
  }

  /** True the first time. `isTimed` is false for a job whose latency says nothing: it was told to wait. */
  end(n: number, nowMs: number, isTimed = true): boolean {
    if (!this.#isKnown(n)) return false;
    const times = this.#ended[n] ?? 0;
    this.#ended[n] = Math.min(255, times + 1);
    if (times > 0) return false;
    this.open--;
    if (isTimed) this.#latencies?.push(nowMs - (this.#submittedMs[n] ?? 0));
    return true;
  }

  /** From here on latencies are kept, of the jobs that end. */
  beginWindow(): void {
    this.#latencies = [];
  }

  endWindow(): { jobs: number; p50Ms: number; p95Ms: number } {
    const latencies = this.#latencies ?? [];
    this.#latencies = null;
    return { jobs: latencies.length, p50Ms: percentile(latencies, 0.5), p95Ms: percentile(latencies, 0.95) };
  }

  /**
   * What was not exactly once. `isWorkHere` is false where another process did the work and keeps its own books;
   * `isDrained` is false where jobs may still be waiting.
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
    const sentences: readonly (readonly [number, string])[] = [
      [wrong.unended, "never ended"],
      [wrong.endedAgain, "ended more than once"],
      [wrong.unworked, this.#stepsEach === 1 ? "were never worked on" : "were not worked on in all their steps"],
      [wrong.workedAgain, "were worked on more than once"],
      [this.#outOfOrder, "had a step worked on before the one before it"],
      [this.#strangers, "were seen that nobody had submitted"],
    ];
    const things = this.#stepsEach === 1 ? "jobs" : "runs";
    return sentences
      .filter(([count]) => count > 0)
      .map(([count, what]) => `${count} of ${this.submitted} ${things} ${what}`);
  }

  #isKnown(n: number): boolean {
    if (Number.isInteger(n) && n >= 0 && n < this.submitted) return true;
    this.#strangers++;
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
