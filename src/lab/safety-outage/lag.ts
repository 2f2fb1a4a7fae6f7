/**
 * Who waits: jobs that have come and are not out yet. It is shown the jobs as they are committed; the flow does not know of
 * it.
 */
import { JOBS, type Job } from "../../core/model/job.ts";
import type { MemoryStore } from "../../sim/adapters/memory-store.ts";

export class Lag {
  readonly #nowMs: () => number;
  readonly #came = new Map<string, number>();
  readonly #waiting = new Set<string>();
  readonly #cameMs: number[] = [];
  readonly #outMs: number[] = [];
  /** How long each job that is out had to wait. */
  readonly waitsMs: number[] = [];
  bypassed = 0;
  /** Those that are waited for until it counts as drained. */
  #left: Set<string> | null = null;
  #onDrained: () => void = () => undefined;
  drainedMs: number | null = null;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** As it was committed now. */
  note({ id, state }: Pick<Job, "id" | "state">): void {
    const nowMs = this.#nowMs();
    if (!this.#came.has(id)) {
      this.#came.set(id, nowMs);
      this.#cameMs.push(nowMs);
      this.#waiting.add(id);
    }
    if (state === "PENDING" || !this.#waiting.delete(id)) return;
    this.#outMs.push(nowMs);
    this.waitsMs.push(nowMs - (this.#came.get(id) ?? nowMs));
    if (this.#left?.delete(id) === true && this.#left.size === 0) this.#onDrained();
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Jobs of those that waited then which are not out yet. */
  get left(): number {
    return this.#left?.size ?? 0;
  }

  get submitted(): number {
    return this.#came.size;
  }

  /** Resolves once everybody who waits now is out. */
  drained(): Promise<void> {
    this.#left = new Set(this.#waiting);
    return new Promise((resolve) => {
      this.#onDrained = () => {
        this.drainedMs = this.#nowMs();
        resolve();
      };
      if (this.#left?.size === 0) this.#onDrained();
    });
  }

  /** How many waited at each of so many instants, evenly from one time to the other. */
  over(fromMs: number, toMs: number, points: number): readonly number[] {
    const came = this.#cameMs.toSorted((a, b) => a - b);
    const out = this.#outMs.toSorted((a, b) => a - b);
    let [cameSoFar, outSoFar] = [0, 0];
    return Array.from({ length: points + 1 }, (_, index) => {
      const atMs = fromMs + ((toMs - fromMs) * index) / points;
      while (cameSoFar < came.length && came[cameSoFar]! <= atMs) cameSoFar += 1;
      while (outSoFar < out.length && out[outSoFar]! <= atMs) outSoFar += 1;
      return cameSoFar - outSoFar;
    });
  }

  /** Without a lease nobody may be out while the kernel is away. */
  checkClosed(): void {
    if (this.#outMs.length > 0) throw new Error(`${this.#outMs.length} jobs went out without a verdict or a lease`);
  }

  /** What a lease let out says so, in its labels and in the durable count; nothing else does. */
  checkLabels(store: MemoryStore): void {
    let labelled = 0;
    for (const { value } of store.rows(JOBS)) {
      const { safety_bypassed: isBypassed, safety_bypass_reason: reason } = value.labels;
      if ((value.bypass !== undefined && value.bypass !== null) !== (isBypassed === "true" && Boolean(reason))) {
        throw new Error(`job \`${value.id}\` is bypassed without its labels, or labelled without a bypass`);
      }
      if (isBypassed === "true") labelled += 1;
    }
    const counted = store.total("scheduler:input_fail_open_total");
    if (labelled !== counted) throw new Error(`${labelled} jobs are labelled as bypassed, ${counted} were counted`);
    this.bypassed = labelled;
  }
}
