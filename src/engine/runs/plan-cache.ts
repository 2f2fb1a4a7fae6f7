import type { WorkflowVersion } from "../../core/model/workflow.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";

/**
 * Compiled plans of this process.
 *
 * 1. Bounded by count and document size; the least recently used plan is evicted.
 * 2. A version is immutable, but a deleted version may be created again under its number. A plan is used for `SEEN_MS`,
 *    then its record is checked.
 */
export class PlanCache {
  readonly #plans = new Map<string, Kept>();
  #size = 0;

  /** Null if not cached or due for a check. */
  get(key: string, nowMs: number): Plan | null {
    const kept = this.#plans.get(key);
    if (kept === undefined || nowMs - kept.seenMs >= SEEN_MS) return null;
    this.#plans.delete(key);
    this.#plans.set(key, kept);
    return kept.plan;
  }

  /** The plan of a loaded record, if it was compiled from that record. */
  confirm(key: string, { hash }: WorkflowVersion, nowMs: number): Plan | null {
    const kept = this.#plans.get(key);
    if (kept === undefined) return null;
    this.drop(key);
    if (kept.hash !== hash) return null;
    this.#keep(key, { ...kept, seenMs: nowMs });
    return kept.plan;
  }

  put(key: string, { hash, document }: WorkflowVersion, plan: Plan, nowMs: number): void {
    this.drop(key);
    this.#keep(key, { hash, plan, seenMs: nowMs, size: JSON.stringify(document).length });
    for (const oldest of this.#plans.keys()) {
      if (this.#plans.size <= COUNT_MAX && this.#size <= SIZE_MAX) return;
      this.drop(oldest);
    }
  }

  drop(key: string): void {
    this.#size -= this.#plans.get(key)?.size ?? 0;
    this.#plans.delete(key);
  }

  get count(): number {
    return this.#plans.size;
  }

  #keep(key: string, kept: Kept): void {
    this.#plans.set(key, kept);
    this.#size += kept.size;
  }
}

interface Kept {
  readonly hash: string;
  readonly plan: Plan;
  /** Last check of the record. */
  readonly seenMs: number;
  /** Document length in characters. */
  readonly size: number;
}

const COUNT_MAX = 512;
const SIZE_MAX = 8 * 1024 * 1024;
const SEEN_MS = 10_000;
