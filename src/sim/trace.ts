import { textHash } from "./random.ts";

/**
 * What happened, as one number: two runs with the same hash had the same history.
 *
 * Every traced event (time, who, what, which) is mixed in as it happens; the lines themselves are kept only on request,
 * because a million strings cost more than the simulation.
 */
export class Trace {
  #high = 0x243f6a88;
  #low = 0x85a308d3;
  #count = 0;
  readonly #words = new Map<string, number>();
  readonly #lines: string[] | null;

  constructor(keepsLines = false) {
    this.#lines = keepsLines ? [] : null;
  }

  get count(): number {
    return this.#count;
  }

  get lines(): readonly string[] {
    return this.#lines ?? [];
  }

  /** `who` and `what` come from small sets; `which` may be anything. */
  note(timeMs: number, who: string, what: string, which: string): void {
    this.#count += 1;
    const whole = Math.floor(timeMs);
    // Whole milliseconds and the fraction in 2^20ths: all bits that matter, no rounding that differs.
    this.#mix(whole | 0);
    this.#mix(((timeMs - whole) * 0x10_0000) | 0);
    this.#mix(this.#word(who) ^ Math.imul(this.#word(what), 31));
    let text = which.length;
    for (let index = 0; index < which.length; index += 1) text = Math.imul(text ^ which.charCodeAt(index), 0x01000193);
    this.#mix(text);
    this.#lines?.push(`${timeMs.toFixed(3)} ${who} ${what} ${which}`);
  }

  hash(): string {
    const hex = (word: number): string => (word >>> 0).toString(16).padStart(8, "0");
    return hex(this.#high) + hex(this.#low);
  }

  #mix(word: number): void {
    const high = Math.imul(this.#high ^ word, 0xcc9e2d51);
    const low = Math.imul(this.#low + word, 0x1b873593) ^ (high >>> 15);
    this.#high = (((high << 13) | (high >>> 19)) + low) | 0;
    this.#low = ((low << 17) | (low >>> 15)) ^ this.#high;
  }

  #word(text: string): number {
    let known = this.#words.get(text);
    if (known === undefined) {
      known = textHash(text);
      this.#words.set(text, known);
    }
    return known;
  }
}
