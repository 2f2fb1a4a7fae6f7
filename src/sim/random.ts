import type { Random } from "../ports/random.ts";

/**
 * Seeded chance: xoshiro128**, in 32-bit integers only, so that it is the same on every machine.
 *
 * 1. The same seed gives the same draws.
 * 2. `fork(name)` depends on the seed and the name, never on what was drawn before: one consumer's draws do not shift
 *    another's, so a new draw in one place leaves the rest of a history as it was.
 */
export class SeededRandom implements Random {
  readonly #seed: number;
  readonly #name: string;
  #a: number;
  #b: number;
  #c: number;
  #d: number;
  #ids = 0;
  /** Of the ids: kept, because it takes as long as all the rest. */
  #prefix: string | null = null;

  constructor(seed: number, name = "") {
    this.#seed = seed >>> 0;
    this.#name = name;
    // Seeds beyond 32 bits are folded in, so that they do not all look like their lower half.
    let state = (this.#seed ^ textHash(`${Math.floor(seed / 0x1_0000_0000)}/${name}`)) >>> 0;
    const mixed = (): number => {
      state = (state + 0x9e3779b9) >>> 0;
      return scramble(state);
    };
    this.#a = mixed();
    this.#b = mixed();
    this.#c = mixed();
    // All four zero is the one state that xoshiro never leaves.
    this.#d = mixed() | 1;
  }

  fork(name: string): SeededRandom {
    return new SeededRandom(this.#seed, `${this.#name}/${name}`);
  }

  next(): number {
    return this.#draw() / 0x1_0000_0000;
  }

  /** Names the generator that made it, counts, and adds chance: no other generator of this seed makes the same. */
  id(): string {
    this.#ids += 1;
    const word = (this.#draw() >>> 0).toString(36);
    this.#prefix ??= (textHash(this.#name) >>> 0).toString(36);
    return `${this.#prefix}-${this.#ids.toString(36)}-${word}`;
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability;
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** A whole number from 0 to `count - 1`. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error("nothing to pick from: give at least one item");
    return items[this.below(items.length)]!;
  }

  /** Most are short, a few are very long. */
  exponential(mean: number): number {
    return -Math.log(1 - this.next()) * mean;
  }

  /** Two draws each, so that the next one never depends on how this one came out. */
  normal(mean: number, deviation: number): number {
    const far = Math.sqrt(-2 * Math.log(1 - this.next()));
    return mean + deviation * far * Math.cos(2 * Math.PI * this.next());
  }

  /** Uniform in its logarithm: as likely between 1 and 10 as between 10 and 100. */
  logarithmic(low: number, high: number): number {
    return low * Math.exp(this.next() * Math.log(high / low));
  }

  #draw(): number {
    const drawn = Math.imul(rotated(Math.imul(this.#b, 5), 7), 9) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = rotated(this.#d, 11);
    return drawn;
  }
}

/** A 32-bit hash of a text (FNV-1a, then scrambled: short names must not give neighbouring seeds). */
export function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return scramble(hash >>> 0);
}

function rotated(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}

function scramble(word: number): number {
  let mixed = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
