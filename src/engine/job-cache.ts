import { type DispatchWindow, FIRST_WINDOW } from "../core/jobs/dispatch-window.ts";
import type { Turn } from "../core/jobs/fair-share.ts";
import type { Job } from "../core/model/job.ts";
import type { Versioned } from "../ports/store.ts";

/**
 * Per-process hints for dispatch: idle and full topics, fair-share turns, recently sent jobs. Every entry may be stale or
 * missing; the store confirms each decision that uses one.
 */
export class JobCache {
  readonly #idle = new Map<string, IdleTopic>();
  readonly #turns = new Map<string, Turn>();
  readonly #full = new Set<string>();
  readonly #windows = new Map<string, DispatchWindow>();
  readonly #sent = new Map<string, Versioned<Job>>();

  /** True while a topic without responders is not retried. */
  isIdle(topic: string, nowMs: number): boolean {
    const idle = this.#idle.get(topic);
    return idle !== undefined && nowMs < idle.untilMs;
  }

  idleTopics(limit: number): readonly string[] {
    const topics: string[] = [];
    for (const topic of this.#idle.keys()) {
      if (topics.length >= limit) break;
      topics.push(topic);
    }
    return topics;
  }

  /** Consecutive dispatches of the topic without a responder. */
  idleCount(topic: string): number {
    return this.#idle.get(topic)?.count ?? 0;
  }

  markIdle(topic: string, untilMs: number): void {
    if (this.#idle.size >= TOPICS_MAX) this.#idle.clear();
    this.#idle.set(topic, { untilMs, count: this.idleCount(topic) + 1 });
  }

  /** True if the topic was idle. */
  markServed(topic: string): boolean {
    return this.#idle.delete(topic);
  }

  /** True after a window refusal: jobs of the topic enter the backlog directly until a drain empties it. */
  isFull(topic: string): boolean {
    return this.#full.has(topic);
  }

  markFull(topic: string): void {
    if (this.#full.size >= TOPICS_MAX) this.#full.clear();
    this.#full.add(topic);
  }

  markNotFull(topic: string): void {
    this.#full.delete(topic);
  }

  /** The learned window of a topic. */
  windowOf(topic: string): DispatchWindow {
    return this.#windows.get(topic) ?? FIRST_WINDOW;
  }

  setWindow(topic: string, window: DispatchWindow): void {
    if (this.#windows.size >= TOPICS_MAX) this.#windows.clear();
    this.#windows.set(topic, window);
  }

  /** Keeps the record as committed: its result usually arrives in this process and needs no load then. */
  rememberSent(sent: Versioned<Job>): void {
    if (this.#sent.size >= SENT_MAX) {
      for (const oldest of this.#sent.keys()) {
        this.#sent.delete(oldest);
        break;
      }
    }
    this.#sent.set(sent.id, sent);
  }

  /** Removes the entry: if it is stale, the next attempt loads the record. */
  recallSent(jobId: string): Versioned<Job> | null {
    const sent = this.#sent.get(jobId) ?? null;
    if (sent) this.#sent.delete(jobId);
    return sent;
  }

  /** The org served last; the next turn continues there. */
  turnOf(topic: string): Turn | undefined {
    return this.#turns.get(topic);
  }

  setTurn(topic: string, turn: Turn): void {
    if (this.#turns.size >= TOPICS_MAX) this.#turns.clear();
    this.#turns.set(topic, turn);
  }
}

interface IdleTopic {
  readonly untilMs: number;
  readonly count: number;
}

const TOPICS_MAX = 10_000;
const SENT_MAX = 1_024;
