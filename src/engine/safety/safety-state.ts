import type { Decision } from "../../core/policy/decision.ts";
import { type Breaker, CLOSED } from "../../core/retry/breaker.ts";
import type { Needs } from "../engine.ts";
import { CachedRead } from "./cached-read.ts";
import { CheckPacer } from "./check-pacer.ts";
import { FailOpenGrants } from "./fail-open-grants.ts";

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
  readonly breakerRead = new CachedRead();
  /** Claims of probes under way: one that is being asked for need not be asked for again. */
  claiming = 0;
  /** The others that fail meanwhile need not open it as well. */
  opening = false;

  /** What has waited for the kernel goes to it one by one. */
  readonly checkPacer = new CheckPacer();

  readonly grants: FailOpenGrants;

  readonly #verdicts = new Map<string, { readonly lifeMs: number; readonly decision: Decision }>();

  constructor(engine: Needs<"world" | "settings" | "tasks">) {
    this.grants = new FailOpenGrants(engine);
  }

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

const VERDICTS_MAX = 1_000;
