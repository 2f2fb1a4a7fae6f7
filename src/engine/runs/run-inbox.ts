import type { Run } from "../../core/model/run.ts";
import type { Loaded } from "../../core/workflow/run/values.ts";
import type { Versioned } from "../../ports/store.ts";
import type { QueuedRunEvent } from "./run-lock.ts";

/**
 * What one process remembers of runs between two messages: news that waits for a run's lock, and the record as this
 * process wrote it last. Hints only: whoever uses them confirms them by version.
 */
export class RunInbox {
  readonly #waiting = new Map<string, PendingRunEvent[]>();
  readonly #written = new Map<string, Versioned<Run>>();
  readonly #values = new Map<string, Loaded>();
  #valueBytes = 0;
  #count = 0;
  #trust = 1;

  /** Adds news to what waits under the key; true if somebody has to begin to work on it. */
  add(key: string, waiting: PendingRunEvent): boolean {
    const queue = this.#waiting.get(key);
    if (queue) {
      queue.push(waiting);
      return false;
    }
    this.#waiting.set(key, [waiting]);
    return true;
  }

  waiting(key: string): readonly PendingRunEvent[] {
    return this.#waiting.get(key) ?? [];
  }

  take(key: string, limit: number): readonly PendingRunEvent[] {
    return this.#waiting.get(key)?.splice(0, limit) ?? [];
  }

  /** In front of what has come since. */
  giveBack(key: string, waiting: readonly PendingRunEvent[]): void {
    this.#waiting.get(key)?.unshift(...waiting);
  }

  isEmpty(key: string): boolean {
    return (this.#waiting.get(key)?.length ?? 0) === 0;
  }

  /** Nobody works on it any more; true if nothing had come in between. */
  leave(key: string): boolean {
    if (!this.isEmpty(key)) return false;
    this.#waiting.delete(key);
    return true;
  }

  /** A key that nobody else has: news that is not coalesced. */
  ownKey(key: string): string {
    this.#count += 1;
    return `${key} ${this.#count}`;
  }

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

  /** A value in the blob store never changes under its name: what was loaded once need not be loaded for each child. */
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
   * Whether what this process wrote last is worth a try: where it is alone with its runs it is right every time, where
   * others work on them hardly ever. Once wrong, it has to be right several times before it is trusted again.
   */
  get isTrusted(): boolean {
    return this.#trust > 0;
  }

  noteRecalled(isRight: boolean): void {
    this.#trust = isRight ? Math.min(1, this.#trust + 1) : -MISTRUST;
  }

  forgetRun(runId: string): void {
    this.#written.delete(runId);
  }
}

export interface PendingRunEvent {
  readonly queued: QueuedRunEvent;
  readonly resolve: (answer: RunEventOutcome) => void;
  readonly reject: (error: unknown) => void;
}

export type RunEventOutcome =
  /** Written. `run` is null where the run is gone, and the job ended by itself. */
  | { readonly kind: "done"; readonly run: Run | null }
  /** The job is another one by now: decide again. */
  | { readonly kind: "stale" };

const WRITTEN_MAX = 2_048;
const MISTRUST = 16;
const VALUE_BYTES_MAX = 16 * 1024 * 1024;
