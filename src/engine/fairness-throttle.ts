import type { Needs } from "./engine.ts";

/**
 * Who lets whom pass, in one process: what has very much to do (a wide `for_each`, the chain of the audit log) takes small
 * turns and rests between them while others have work here, so that these find the process free more often than not.
 *
 * 1. It pays for the time it took: for each millisecond of a turn, `REST_FACTOR` of rest. Time alone pays a debt.
 * 2. Nobody rests for nobody: only while others have work under way here, or had a moment ago (the next message about
 *    them is probably on its way). Alone, a run goes as fast as it can; and the wide are no others to each other.
 * 3. Whoever has a step now and then never rests.
 * 4. A hint like everything that a process remembers: it says when, never what.
 */
export class FairnessThrottle {
  /** How many pieces of work are under way here, by the run or the job that they are about. */
  readonly #open = new Map<string, number>();
  readonly #wide = new Map<string, Wide>();
  /** Who had work here last, and who had before: one of them is not the one who asks. */
  #last: Seen = NOBODY;
  #before: Seen = NOBODY;
  readonly #momentMs: number;

  /** `isShared`: other processes work beside this one, and what is seen here is a sample of what they have to do. */
  constructor(isShared: boolean) {
    this.#momentMs = isShared ? LATELY_MS : MOMENT_MS;
  }

  begin(about: string, nowMs: number): void {
    this.#open.set(about, (this.#open.get(about) ?? 0) + 1);
    this.#see(about, nowMs);
  }

  end(about: string, nowMs: number): void {
    const left = (this.#open.get(about) ?? 0) - 1;
    if (left > 0) this.#open.set(about, left);
    else this.#open.delete(about);
    this.#see(about, nowMs);
  }

  /** A turn took so long; `width` is how much it dealt with, and how much more there will soon be. */
  spend(about: string, width: number, tookMs: number, nowMs: number): void {
    const before = this.#wide.get(about);
    this.#wide.delete(about);
    if (width <= WIDTH_MAX) return;
    if (this.#wide.size >= WIDE_MAX) this.#wide.clear();
    const owedMs = Math.max(0, (before?.paidMs ?? 0) - nowMs) + Math.max(0, tookMs) * REST_FACTOR;
    this.#wide.set(about, { atMs: nowMs, paidMs: nowMs + Math.min(owedMs, REST_MS_MAX) });
  }

  /** How long this one lets others pass before its next turn. */
  restMs(about: string, nowMs: number): number {
    const owedMs = (this.#wide.get(about)?.paidMs ?? 0) - nowMs;
    return owedMs > 0 && this.#hasOthers(about, nowMs, this.#momentMs) ? owedMs : 0;
  }

  /** Whether others come by often enough that one of them will probably come during the next turn. */
  isAlone(about: string, nowMs: number): boolean {
    return !this.#hasOthers(about, nowMs, LATELY_MS);
  }

  #hasOthers(asking: string, nowMs: number, withinMs: number): boolean {
    const last = this.#last.about === asking ? this.#before : this.#last;
    if (last.atMs + withinMs > nowMs && !this.#isWide(last.about, nowMs)) return true;
    let looks = 0;
    for (const about of this.#open.keys()) {
      if (about !== asking && !this.#isWide(about, nowMs)) return true;
      if (++looks === LOOKS_MAX) return false;
    }
    return false;
  }

  #isWide(about: string, nowMs: number): boolean {
    return (this.#wide.get(about)?.atMs ?? Number.NEGATIVE_INFINITY) + WIDE_MS > nowMs;
  }

  #see(about: string, nowMs: number): void {
    if (this.#last.about !== about) this.#before = this.#last;
    this.#last = { about, atMs: nowMs };
  }
}

/** Before a turn: others pass first, where this one has had its share. Null: nobody has to wait. */
export function awaitTurn({ throttle, world }: Needs<"throttle" | "world">, about: string): Promise<void> | null {
  const restMs = throttle.restMs(about, world.clock.now());
  return restMs > 0 ? new Promise((resolve) => world.clock.after(restMs, resolve)) : null;
}

interface Seen {
  readonly about: string;
  readonly atMs: number;
}

interface Wide {
  /** Its last turn. */
  readonly atMs: number;
  /** When what it owes will be paid. */
  readonly paidMs: number;
}

const NOBODY: Seen = { about: "", atMs: Number.NEGATIVE_INFINITY };
/** Two thirds for others: then what they do takes half as long again, and the rest of the turn that they came upon. */
const REST_FACTOR = 2;
/** However long a turn took (the store was away), nobody rests longer than that for it. */
const REST_MS_MAX = 20;
/** What a run with a few steps at once never has. */
const WIDTH_MAX = 16;
/** How long somebody is taken for wide after a turn. */
const WIDE_MS = 1_000;
/** From one station to the next within a process; and how far apart others are that come by all the time. */
const MOMENT_MS = 10;
const LATELY_MS = 250;
const WIDE_MAX = 2_048;
/** Among very many wide ones nobody looks for the one who is not: who came last is seen anyway. */
const LOOKS_MAX = 32;
