/**
 * Bounds the cost of measuring: the units per second that one process measures. To store, read and judge a unit takes about as
 * much CPU as a job. The share depends on the number of units only, so it is the same in both arms.
 */
export class MeasuredUnits {
  #second = Number.NEGATIVE_INFINITY;
  #units = 0;
  /** Units of the second before. */
  #before = 0;

  /** Counts a unit, and returns the probability with which it is measured. */
  shareAt(nowMs: number): number {
    const second = Math.floor(nowMs / 1_000);
    if (second !== this.#second) {
      this.#before = second === this.#second + 1 ? this.#units : 0;
      this.#second = second;
      this.#units = 0;
    }
    this.#units += 1;
    return Math.min(1, MEASURED_PER_SECOND / Math.max(this.#units, this.#before));
  }
}

/** About: the first second of a burst has some more. */
export const MEASURED_PER_SECOND = 50;
