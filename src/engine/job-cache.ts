import type { Turn } from "../core/jobs/fair-share.ts";
import type { Job } from "../core/model/job.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { Versioned } from "../ports/store.ts";
import { BusyKeys } from "./busy-keys.ts";

/**
 * What one process remembers between two messages: hints only. Everything here may be wrong or lost at any moment; the
 * store is asked before anything is decided by it.
 */
export class JobCache {
  readonly #idle = new Map<string, IdleTopic>();
  readonly #drains = new Map<string, Drain>();
  readonly #turns = new Map<string, Turn>();
  readonly #full = new Set<string>();
  readonly #sent = new Map<string, Versioned<Job>>();
  readonly #busy = new Map<string, number>();
  readonly #busyKeys = new BusyKeys();
  readonly #pending = new Set<Promise<unknown>>();
  readonly #timers = new Set<Cancel>();
  #isClosed = false;
  /** Sends in progress after their commit; bounded, because the sweeper sends whatever is left out. */
  sending = 0;

  /** Work that nobody waits for now, but a stop does. Its promise never rejects. */
  track(work: Promise<unknown>): void {
    this.#pending.add(work);
    void work.then(() => this.#pending.delete(work));
  }

  /** Calls back later, unless this process has been stopped by then. What is vital comes even if too many are asked for. */
  later(clock: Clock, delayMs: number, fn: () => void, isVital = false): void {
    if (this.#isClosed || (this.#timers.size >= TIMERS_MAX && !isVital)) return;
    const cancel = clock.after(delayMs, () => {
      this.#timers.delete(cancel);
      fn();
    });
    this.#timers.add(cancel);
  }

  /** Starts nothing new, and waits for what is under way: a job that was committed as sent is sent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether nobody served the topic lately, so that sending to it is not worth a try yet. */
  isIdle(topic: string, nowMs: number): boolean {
    const idle = this.#idle.get(topic);
    return idle !== undefined && nowMs < idle.untilMs;
  }

  /** Topics that are left alone, some of them if there are many. */
  idleTopics(limit: number): readonly string[] {
    const topics: string[] = [];
    for (const topic of this.#idle.keys()) {
      if (topics.length >= limit) break;
      topics.push(topic);
    }
    return topics;
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

  /** A lock was busy: how often in a row that was so for this process. */
  noteBusy(key: string, nowMs: number): number {
    this.#busyKeys.note(key, nowMs);
    const count = (this.#busy.get(key) ?? 0) + 1;
    if (this.#busy.size >= LOCKS_MAX) this.#busy.clear();
    this.#busy.set(key, count);
    return count;
  }

  /** How often a lock was busy in the last minute, for this process. */
  busyLastMinute(key: string, nowMs: number): number {
    return this.#busyKeys.lastMinute(key, nowMs);
  }

  /** A lock was taken: how often in a row it had been busy before. */
  noteTaken(key: string): number {
    const count = this.#busy.get(key) ?? 0;
    if (count > 0) this.#busy.delete(key);
    return count;
  }

  /** The org that was served last: the next turn goes on there. Undefined where nobody was served yet. */
  turnOf(topic: string): Turn | undefined {
    return this.#turns.get(topic);
  }

  giveTurn(topic: string, turn: Turn): void {
    if (this.#turns.size >= TOPICS_MAX) this.#turns.clear();
    this.#turns.set(topic, turn);
  }

  /** Runs at most one drain of a topic at a time; a wish during a drain makes one more round. */
  drainOnce(topic: string, drain: () => Promise<void>): void {
    const running = this.#drains.get(topic);
    if (running) {
      running.again = true;
      return;
    }
    const entry: Drain = { again: false };
    this.#drains.set(topic, entry);
    this.track(this.#rounds(topic, entry, drain));
  }

  async #rounds(topic: string, entry: Drain, drain: () => Promise<void>): Promise<void> {
    do {
      entry.again = false;
      await drain();
    } while (entry.again && !this.#isClosed);
    this.#drains.delete(topic);
  }
}

const TOPICS_MAX = 10_000;
const LOCKS_MAX = 10_000;
const SENT_MAX = 1_024;
const TIMERS_MAX = 10_000;

interface IdleTopic {
  readonly untilMs: number;
  readonly count: number;
}

interface Drain {
  again: boolean;
}
