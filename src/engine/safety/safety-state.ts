import type { FailOpenGrant } from "../../core/model/fail-open.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { type Breaker, CLOSED } from "../../core/retry/breaker.ts";
import { CheckPacer } from "./check-pacer.ts";

/**
 * What one process remembers about the safety kernel: its copies of the breaker and of the open leases, and the verdicts
 * that it was given and could not store yet.
 */
export class SafetyState {
  /** As this process knows it: a closed one counts this process's own failures. */
  breaker: Breaker = CLOSED;
  /** Of the record that the copy comes from; 0 when there is none yet. */
  breakerVersion = 0;
  /** How often the copy was made anew: whether it was while somebody read the record. */
  breakerCopies = 0;
  readonly breakerRead = new Reading();
  /** Claims of probes under way: one that is being asked for need not be asked for again. */
  claiming = 0;
  /** The others that fail meanwhile need not open it as well. */
  opening = false;

  /** What has waited for the kernel goes to it one by one. */
  readonly checkPacer = new CheckPacer();

  /** Leases that are open in the store, as far as this process knows. */
  leases: readonly FailOpenGrant[] = [];
  readonly leasesRead = new Reading();
  /** Leases that this process has counted down; no clock brings them back. */
  readonly over = new Set<string>();
  readonly counted = new Set<string>();

  readonly #verdicts = new Map<string, { readonly lifeMs: number; readonly decision: Decision }>();

  /** A verdict that was given stands: until it is stored, this process does not ask again (L29). */
  keepVerdict(jobId: string, lifeMs: number, decision: Decision): void {
    if (this.#verdicts.size >= VERDICTS_MAX) {
      for (const oldest of this.#verdicts.keys()) {
        this.#verdicts.delete(oldest);
        break;
      }
    }
    this.#verdicts.set(jobId, { lifeMs, decision });
  }

  /** `lifeMs` tells a job from what it was before it was revived: each life has a deadline of its own. */
  verdictFor(jobId: string, lifeMs: number): Decision | null {
    const kept = this.#verdicts.get(jobId);
    return kept?.lifeMs === lifeMs ? kept.decision : null;
  }

  dropVerdict(jobId: string): void {
    this.#verdicts.delete(jobId);
  }
}

/** Reads one thing at a time: whoever wants it while it is being read waits for the same answer. */
export class Reading {
  #now: Promise<void> | null = null;
  #readMs = Number.NEGATIVE_INFINITY;

  run(nowMs: number, read: () => Promise<void>): Promise<void> {
    this.#now ??= read()
      .then(() => {
        this.#readMs = nowMs;
      })
      .finally(() => {
        this.#now = null;
      });
    return this.#now;
  }

  get isUnderWay(): boolean {
    return this.#now !== null;
  }

  /** A clock that was set back makes it old as well. */
  isOlderThan(ms: number, nowMs: number): boolean {
    return Math.abs(nowMs - this.#readMs) >= ms;
  }

  forget(): void {
    this.#readMs = Number.NEGATIVE_INFINITY;
  }

  get wasRead(): boolean {
    return this.#readMs !== Number.NEGATIVE_INFINITY;
  }
}

const VERDICTS_MAX = 1_000;
