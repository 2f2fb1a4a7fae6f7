import { recheckAfterPolicyChange } from "../../core/jobs/lifecycle.ts";
import type { Job } from "../../core/model/job.ts";
import type { Decision } from "../../core/policy/decision.ts";
import { type Breaker, CLOSED } from "../../core/retry/breaker.ts";
import { decisionContext } from "../context.ts";
import type { DispatchBlock } from "../dispatch/index.ts";
import type { Needs } from "../engine.ts";
import { CachedRead } from "./cached-read.ts";
import { CheckPacer } from "./check-pacer.ts";
import { FailOpenGrants } from "./fail-open-grants.ts";

/** This process's copies of breaker and fail-open grants, and decisions that could not be stored yet. */
export class SafetyState {
  /** A closed copy counts this process's own failures. */
  breaker: Breaker = CLOSED;
  /** Version of the copied record; 0 if there is none. */
  breakerVersion = 0;
  /** Number of copies so far, to detect a copy made during a read. */
  breakerCopies = 0;
  readonly breakerRead = new CachedRead();
  /** Probe claims in progress. */
  claiming = 0;
  /** Set while this process opens the breaker. */
  opening = false;

  readonly checkPacer = new CheckPacer();

  readonly grants: FailOpenGrants;

  readonly #verdicts = new Map<string, { readonly lifeMs: number; readonly decision: Decision }>();

  readonly #engine: Needs<"world" | "settings" | "kernel">;

  constructor(engine: Needs<"world" | "settings" | "tasks" | "kernel">) {
    this.#engine = engine;
    this.grants = new FailOpenGrants(engine);
  }

  /** Why a queued or retried job has no permission now: its fail-open grant has ended, or its policy was replaced. */
  block(job: Job): DispatchBlock | null {
    const ended = this.grants.block(job);
    if (ended !== null || job.safety === null || !this.#engine.kernel.isReplaced(job.safety.snapshot)) return ended;
    return { kind: "waits", job: recheckAfterPolicyChange(job, decisionContext(this.#engine, job)) };
  }

  /** A decision is final: until it is stored, the kernel is not asked again (L29). */
  keepVerdict(jobId: string, lifeMs: number, decision: Decision): void {
    if (this.#verdicts.size >= VERDICTS_MAX) {
      for (const oldest of this.#verdicts.keys()) {
        this.#verdicts.delete(oldest);
        break;
      }
    }
    this.#verdicts.set(jobId, { lifeMs, decision });
  }

  /** `lifeMs` (the deadline) distinguishes a job from its state before a redrive. */
  verdictFor(jobId: string, lifeMs: number): Decision | null {
    const kept = this.#verdicts.get(jobId);
    return kept?.lifeMs === lifeMs ? kept.decision : null;
  }

  dropVerdict(jobId: string): void {
    this.#verdicts.delete(jobId);
  }
}

const VERDICTS_MAX = 1_000;
