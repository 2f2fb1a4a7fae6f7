import type { RunLimitReached } from "../runs/index.ts";
import type { StartOutcome } from "./start-run.ts";

/**
 * Limits concurrent starts of one org in one process, so that a burst at a full org costs little more than the admitted
 * starts.
 *
 * 1. At most as many starts are decided at once as runs may be open. With enough slots no start waits.
 * 2. A start that was waiting when a refused start began gets the same refusal. Later starts decide on their own,
 *    because a run may have ended since.
 * 3. After an error no start waits.
 * 4. The limiter saves work; the guard of the commit decides.
 */
export class AdmissionLimiter {
  readonly #lines = new Map<string, OrgQueue>();

  /** Runs `start` in its turn, or returns the refusal of another start. */
  async run(
    org: string,
    widthMax: number,
    start: () => Promise<StartOutcome>,
  ): Promise<StartOutcome | RefusedWithAnother> {
    const line = this.#queueOf(org);
    if (line.going < Math.max(1, widthMax) || line.waiting.length >= WAITING_MAX) line.going += 1;
    else {
      line.arrivals += 1;
      const nth = line.arrivals;
      const full = await new Promise<RunLimitReached | null>((tell) => line.waiting.push({ nth, tell }));
      if (full !== null) return { kind: "refused_with_another", full };
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

  #leave(org: string, line: OrgQueue): void {
    const next = line.waiting.shift();
    if (next !== undefined) next.tell(null);
    else if (--line.going === 0) this.#lines.delete(org);
  }

  #queueOf(org: string): OrgQueue {
    let line = this.#lines.get(org);
    if (line === undefined) {
      line = { going: 0, arrivals: 0, waiting: [] };
      this.#lines.set(org, line);
    }
    return line;
  }
}

/** Refused by another start's result. */
export interface RefusedWithAnother {
  readonly kind: "refused_with_another";
  readonly full: RunLimitReached;
}

interface OrgQueue {
  going: number;
  /** Number of starts that had to wait. */
  arrivals: number;
  /** In order of arrival; resolved with null for their turn. */
  readonly waiting: { readonly nth: number; readonly tell: (full: RunLimitReached | null) => void }[];
}

/** Further starts do not wait. */
const WAITING_MAX = 10_000;
