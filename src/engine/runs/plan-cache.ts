import type { WorkflowVersion } from "../../core/model/workflow.ts";
import type { Plan } from "../../core/workflow/definition/plan.ts";

/**
 * The plans that one process has compiled.
 *
 * 1. Bounded, in number and in the size of their documents: the one that was not used for longest goes first.
 * 2. A version never changes while it is there. One that was removed, and made anew under the same number, is another:
 *    so a plan is good for some time, and then its record is looked at again.
 */
export class PlanCache {
  readonly #plans = new Map<string, Kept>();
  #size = 0;

  /** Null when it is not known, or has not been looked at for too long. */
  get(key: string, nowMs: number): Plan | null {
    const kept = this.#plans.get(key);
    if (kept === undefined || nowMs - kept.seenMs >= SEEN_MS) return null;
    this.#plans.delete(key);
    this.#plans.set(key, kept);
    return kept.plan;
  }

  /** The plan of a record that was just loaded, if it was compiled from that very record. */
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
  /** When the record was seen last. */
  readonly seenMs: number;
  /** Of the document, in characters. */
  readonly size: number;
}

const COUNT_MAX = 512;
const SIZE_MAX = 8 * 1024 * 1024;
const SEEN_MS = 10_000;
