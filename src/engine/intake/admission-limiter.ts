import type { RunLimitReached } from "../runs/index.ts";
import type { StartOutcome } from "./start-run.ts";

/**
 * Starts of one org in one process, so that a crowd before a full org costs little more than those who get in.
 *
 * 1. No more are decided on at once than there may be runs open: more could not get in. Where there is room for all of
 *    them, nobody waits.
 * 2. Whoever waited already when one began that is then told that there is no room is told the same: it asked before
 *    that was so. Who came later may have seen a run end since, and finds out for itself.
 * 3. Something failed: then nobody waits any more, and each finds out for itself.
 * 4. It spares work, and decides nothing: who gets in is up to the guard of the commit, as ever.
 */
export class AdmissionLimiter {
  readonly #lines = new Map<string, Line>();

  /** Starts when it is its turn; or tells what somebody was told meanwhile, without having begun. */
  async pass(org: string, widthMax: number, start: () => Promise<StartOutcome>): Promise<StartOutcome | Told> {
    const line = this.#lineOf(org);
    if (line.going < Math.max(1, widthMax) || line.waiting.length >= WAITING_MAX) line.going += 1;
    else {
      line.arrivals += 1;
      const nth = line.arrivals;
      const full = await new Promise<RunLimitReached | null>((tell) => line.waiting.push({ nth, tell }));
      if (full !== null) return { kind: "told", full };
    }
    const before = line.arrivals;
    try {
      const outcome = await start();
      if (outcome.kind === "full") {
        const later = line.waiting.findIndex(({ nth }) => nth > before);
        for (const { tell } of line.waiting.splice(0, later < 0 ? line.waiting.length : later)) tell(outcome);
      }
      return outcome;
    } catch (error) {
      const waiting = line.waiting.splice(0);
      line.going += waiting.length;
      for (const { tell } of waiting) tell(null);
      throw error;
    } finally {
      this.#leave(org, line);
    }
  }

  #leave(org: string, line: Line): void {
    const next = line.waiting.shift();
    if (next !== undefined) next.tell(null);
    else if (--line.going === 0) this.#lines.delete(org);
  }

  #lineOf(org: string): Line {
    let line = this.#lines.get(org);
    if (line === undefined) {
      line = { going: 0, arrivals: 0, waiting: [] };
      this.#lines.set(org, line);
    }
    return line;
  }
}

/** Somebody else who asked was refused meanwhile. */
export interface Told {
  readonly kind: "told";
  readonly full: RunLimitReached;
}

interface Line {
  going: number;
  /** How many have had to wait. */
  arrivals: number;
  /** In the order in which they came; told null when it is their turn. */
  readonly waiting: { readonly nth: number; readonly tell: (full: RunLimitReached | null) => void }[];
}

/** Beyond that they are on their own. */
const WAITING_MAX = 10_000;
