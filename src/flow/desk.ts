import type { Job } from "../model/job.ts";
import type { Versioned } from "../ports/store.ts";

/**
 * What one process remembers between two messages: hints only. Everything here may be wrong or lost at any moment; the
 * store is asked before anything is decided by it.
 */
export class Desk {
  readonly #idle = new Map<string, IdleTopic>();
  readonly #drains = new Map<string, Drain>();
  readonly #turns = new Map<string, string>();
  readonly #full = new Set<string>();
  readonly #sent = new Map<string, Versioned<Job>>();
  /** Sends in progress after their commit; bounded, because the sweeper sends whatever is left out. */
  sending = 0;

  /** Whether nobody served the topic lately, so that sending to it is not worth a try yet. */
  isIdle(topic: string, nowMs: number): boolean {
    const idle = this.#idle.get(topic);
    return idle !== undefined && nowMs < idle.untilMs;
  }

  /** How often in a row nobody served the topic. */
  idleCount(topic: string): number {
    return this.#idle.get(topic)?.count ?? 0;
  }

  markIdle(topic: string, untilMs: number): void {
    if (this.#idle.size >= TOPICS_MAX) this.#idle.clear();
    this.#idle.set(topic, { untilMs, count: this.idleCount(topic) + 1 });
  }

  /** A worker of the topic was heard of. True if the topic had been idle. */
  markServed(topic: string): boolean {
    return this.#idle.delete(topic);
  }

  /** Whether the topic had no room when last tried: its jobs go straight to the backlog until a drain empties it. */
  isFull(topic: string): boolean {
    return this.#full.has(topic);
  }

  markFull(topic: string): void {
    if (this.#full.size >= TOPICS_MAX) this.#full.clear();
    this.#full.add(topic);
  }

  markRoomy(topic: string): void {
    this.#full.delete(topic);
  }

  /** The record as this process has just committed it: its result will probably come here, and save a load. */
  rememberSent(sent: Versioned<Job>): void {
    if (this.#sent.size >= SENT_MAX) {
      for (const oldest of this.#sent.keys()) {
        this.#sent.delete(oldest);
        break;
      }
    }
    this.#sent.set(sent.id, sent);
  }

  /** Once only: if it proves to be old, the store is asked. */
  recallSent(jobId: string): Versioned<Job> | null {
    const sent = this.#sent.get(jobId) ?? null;
    if (sent) this.#sent.delete(jobId);
    return sent;
  }

  /** The org that was served last: the next turn begins after it. Undefined where nobody was served yet. */
  turnOf(topic: string): string | undefined {
    return this.#turns.get(topic);
  }

  giveTurn(topic: string, org: string): void {
    if (this.#turns.size >= TOPICS_MAX) this.#turns.clear();
    this.#turns.set(topic, org);
  }

  /** Runs at most one drain of a topic at a time; a wish during a drain makes one more round. */
  drainOnce(topic: string, drain: () => Promise<void>): Promise<void> {
    const running = this.#drains.get(topic);
    if (running) {
      running.again = true;
      return running.done;
    }
    const entry: Drain = { again: false, done: Promise.resolve() };
    entry.done = this.#rounds(topic, entry, drain);
    this.#drains.set(topic, entry);
    return entry.done;
  }

  async #rounds(topic: string, entry: Drain, drain: () => Promise<void>): Promise<void> {
    try {
      do {
        entry.again = false;
        await drain();
      } while (entry.again);
    } finally {
      this.#drains.delete(topic);
    }
  }
}

const TOPICS_MAX = 10_000;
const SENT_MAX = 1_024;

interface IdleTopic {
  readonly untilMs: number;
  readonly count: number;
}

interface Drain {
  again: boolean;
  done: Promise<void>;
}
