import type { Run } from "../../core/model/run.ts";
import type { Loaded } from "../../core/workflow/run/values.ts";
import type { Versioned } from "../../ports/store.ts";

/** Runs and payload values as this process last wrote or read them. Hints only: the commit confirms them by version. */
export class RunCache {
  readonly #written = new Map<string, Versioned<Run>>();
  readonly #values = new Map<string, Loaded>();
  #valueBytes = 0;
  #trust = 1;

  rememberRun(run: Versioned<Run>): void {
    this.#written.delete(run.id);
    if (this.#written.size >= WRITTEN_MAX) {
      for (const oldest of this.#written.keys()) {
        this.#written.delete(oldest);
        break;
      }
    }
    this.#written.set(run.id, run);
  }

  recallRun(runId: string): Versioned<Run> | null {
    return this.#written.get(runId) ?? null;
  }

  forgetRun(runId: string): void {
    this.#written.delete(runId);
  }

  /** Values in the blob store are immutable under their pointer, so a cached value stays valid. */
  rememberValue(ptr: string, loaded: Loaded): void {
    if (this.#values.has(ptr)) return;
    for (const [oldest, known] of this.#values) {
      if (this.#valueBytes + loaded.bytes <= VALUE_BYTES_MAX) break;
      this.#values.delete(oldest);
      this.#valueBytes -= known.bytes;
    }
    this.#values.set(ptr, loaded);
    this.#valueBytes += loaded.bytes;
  }

  recallValue(ptr: string): Loaded | null {
    return this.#values.get(ptr) ?? null;
  }

  /**
   * Whether cached runs are worth using. One process that owns its runs is always right; with several writers it is rarely
   * right. After a stale entry, `DISTRUST` confirmed recalls in a row restore the trust.
   */
  get isTrusted(): boolean {
    return this.#trust > 0;
  }

  recordRecall(isCurrent: boolean): void {
    this.#trust = isCurrent ? Math.min(1, this.#trust + 1) : -DISTRUST;
  }
}

const WRITTEN_MAX = 2_048;
const DISTRUST = 16;
const VALUE_BYTES_MAX = 16 * 1024 * 1024;
