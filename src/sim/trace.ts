import { textHash } from "./random.ts";

export interface TraceEntry {
  /** Virtual milliseconds since the start. */
  readonly atMs: number;
  /** A process, or `job`, `run`, `kernel`, `server`. */
  readonly source: string;
  readonly action: string;
  readonly subject: string;
}

/**
 * The trace hash: equal hashes mean equal histories. Each event (time, source, action, subject) is mixed in as it happens.
 * Entries are kept only on request, because millions of them cost more than the simulation.
 */
export class Trace {
  #high = 0x243f6a88;
  #low = 0x85a308d3;
  readonly #hashes = new Map<string, number>();
  readonly #entries: TraceEntry[] | null;

  constructor(keepsEntries = false) {
    this.#entries = keepsEntries ? [] : null;
  }

  get entries(): readonly TraceEntry[] {
    return this.#entries ?? [];
  }

  /** `source` and `action` come from small sets, so their hashes are cached. */
  note(timeMs: number, source: string, action: string, subject: string): void {
    const whole = Math.floor(timeMs);
    // Whole milliseconds, then the fraction in units of 2^-20: both are exact, so rounding cannot differ.
    this.#mix(whole | 0);
    this.#mix(((timeMs - whole) * 0x10_0000) | 0);
    this.#mix(this.#hashOf(source) ^ Math.imul(this.#hashOf(action), 31));
    let text = subject.length;
    for (let at = 0; at < subject.length; at += 1) text = Math.imul(text ^ subject.charCodeAt(at), 0x01000193);
    this.#mix(text);
    this.#entries?.push({ atMs: timeMs, source, action, subject });
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

  #hashOf(text: string): number {
    let known = this.#hashes.get(text);
    if (known === undefined) {
      known = textHash(text);
      this.#hashes.set(text, known);
    }
    return known;
  }
}
