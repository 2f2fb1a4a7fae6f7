import type { Random } from "../ports/random.ts";

/**
 * A seeded generator: xoshiro128** on 32-bit integers, so that every machine draws the same values.
 *
 * `fork(name)` depends on the seed and the name, not on earlier draws. An additional draw in one consumer does not shift
 * the draws of another.
 */
export class SeededRandom implements Random {
  readonly #seed: number;
  readonly #name: string;
  #a: number;
  #b: number;
  #c: number;
  #d: number;
  #ids = 0;
  /** The prefix of generated ids, cached because hashing dominates their cost. */
  #prefix: string | null = null;

  constructor(seed: number, name = "") {
    this.#seed = seed >>> 0;
    this.#name = name;
    // The upper half of seeds beyond 32 bits is folded in.
    let state = (this.#seed ^ textHash(`${Math.floor(seed / 0x1_0000_0000)}/${name}`)) >>> 0;
    const mixed = (): number => {
      state = (state + 0x9e3779b9) >>> 0;
      return scramble(state);
    };
    this.#a = mixed();
    this.#b = mixed();
    this.#c = mixed();
    // The all-zero state is the fixed point of xoshiro.
    this.#d = mixed() | 1;
  }

  fork(name: string): SeededRandom {
    return new SeededRandom(this.#seed, `${this.#name}/${name}`);
  }

  next(): number {
    return this.#draw() / 0x1_0000_0000;
  }

  /** Unique within a seed: a hash of the fork's name, a counter, and a random word. */
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

  exponential(mean: number): number {
    return -Math.log(1 - this.next()) * mean;
  }

  /** Box-Muller without a cached second value: each call makes exactly two draws. */
  normal(mean: number, deviation: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.next()));
    return mean + deviation * radius * Math.cos(2 * Math.PI * this.next());
  }

  /** Log-uniform: [1, 10] is as likely as [10, 100]. */
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

/** FNV-1a, then scrambled, so that similar names give unrelated 32-bit hashes. */
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
