import type { World } from "../../ports/world.ts";
import { workSubject } from "../../protocol/subjects.ts";
import type { EventFeed, JobUpdate } from "../observe/index.ts";

/**
 * Long-poll waiters of this process. A job that enters a backlog wakes the longest-waiting eligible waiter.
 *
 * 1. One job wakes one waiter, not all of them.
 * 2. A woken waiter that takes nothing, or disconnects, wakes the next one that has not polled since. A job that only
 *    one of many workers can run reaches that worker.
 * 3. A waiter that is polling when a job arrives polls again.
 * 4. Hints only: every waiter polls again within a second.
 */
export interface WaiterFilter {
  /** `*` for any tenant. */
  readonly org: string;
  readonly topics: readonly string[];
  readonly signal: AbortSignal;
}

export class LongPollWaiters {
  readonly #world: World;
  readonly #notices: EventFeed;
  /** By subject, longest-waiting first. */
  readonly #ofSubject = new Map<string, Set<Waiter>>();
  /** Topics of open long polls by tenant. */
  readonly #topicsOf = new Map<string, number>();
  #count = 0;
  #stopListening = (): void => {};
  /** Sequence number of the last queued job. */
  #lastSequence = 0;

  constructor(world: World, notices: EventFeed) {
    this.#world = world;
    this.#notices = notices;
  }

  subscribe(filter: WaiterFilter): Waiter {
    const waiter = new Waiter(this.#world, filter, this);
    if (this.#count++ === 0) this.#stopListening = this.#notices.subscribe((update) => this.#hear(update));
    this.moveLast(waiter);
    this.#topicsOf.set(waiter.org, this.polledTopicsOf(waiter.org) + waiter.subjects.size);
    return waiter;
  }

  polledTopicsOf(org: string): number {
    return this.#topicsOf.get(org) ?? 0;
  }

  unsubscribe(waiter: Waiter): void {
    for (const subject of waiter.subjects) {
      const waiters = this.#ofSubject.get(subject);
      waiters?.delete(waiter);
      if (waiters?.size === 0) this.#ofSubject.delete(subject);
    }
    const topics = this.polledTopicsOf(waiter.org) - waiter.subjects.size;
    if (topics > 0) this.#topicsOf.set(waiter.org, topics);
    else this.#topicsOf.delete(waiter.org);
    if (--this.#count === 0) this.#stopListening();
  }

  moveLast(waiter: Waiter): void {
    for (const subject of waiter.subjects) {
      const waiters = this.#ofSubject.get(subject) ?? new Set();
      waiters.delete(waiter);
      this.#ofSubject.set(subject, waiters.add(waiter));
    }
  }

  get lastSequence(): number {
    return this.#lastSequence;
  }

  /** Wakes the longest-waiting waiter that has not polled since; without one, all polling waiters poll again. */
  wake(job: QueuedJob): void {
    const looking: Waiter[] = [];
    for (const waiter of this.#ofSubject.get(job.subject) ?? []) {
      if (waiter.polledSequence >= job.sequence || (waiter.org !== "*" && waiter.org !== job.org)) continue;
      if (waiter.isWaiting) {
        waiter.wake(job);
        return;
      }
      looking.push(waiter);
    }
    for (const waiter of looking) waiter.wake(job);
  }

  #hear({ state, org, topic }: JobUpdate): void {
    if (state === "SCHEDULED") this.wake({ sequence: ++this.#lastSequence, org, subject: workSubject(topic) });
  }
}

/** A job that entered a backlog. */
export interface QueuedJob {
  readonly sequence: number;
  readonly org: string;
  readonly subject: string;
}

export class Waiter {
  readonly org: string;
  readonly subjects: ReadonlySet<string>;
  /** The last sequence number when the current poll began. */
  polledSequence = 0;
  readonly #world: World;
  readonly #bells: LongPollWaiters;
  readonly #signal: AbortSignal;
  /** Set during a poll: poll again. */
  #woken: QueuedJob | null = null;
  /** The job that ended the last wait. */
  #wokenFor: QueuedJob | null = null;
  #wake: (() => void) | null = null;
  readonly #onAbort = (): void => this.#wake?.();

  constructor(world: World, { org, topics, signal }: WaiterFilter, waiters: LongPollWaiters) {
    this.org = org;
    this.subjects = new Set(topics.map(workSubject));
    this.#world = world;
    this.#bells = waiters;
    this.#signal = signal;
    signal.addEventListener("abort", this.#onAbort);
  }

  get isWaiting(): boolean {
    return this.#wake !== null;
  }

  wake(job: QueuedJob): void {
    this.#woken = job;
    this.#wake?.();
  }

  beginPoll(): void {
    this.polledSequence = this.#bells.lastSequence;
    this.#wokenFor = this.#woken;
    this.#woken = null;
  }

  /** The poll found a job, so no other waiter needs the wake-up. */
  endPoll(): void {
    this.#wokenFor = null;
  }

  /** Waits for a wake-up, at most `POLL_EVERY_MS`. */
  wait(restMs: number): Promise<void> {
    const { clock, random } = this.#world;
    this.#passOn(this.#wokenFor);
    if (this.#woken || this.#signal.aborted) return Promise.resolve();
    this.#bells.moveLast(this);
    return new Promise((resolve) => {
      const wake = () => {
        cancel();
        this.#wake = null;
        resolve();
      };
      const cancel = clock.after(Math.min(restMs, POLL_EVERY_MS * (0.5 + random.next() / 2)), wake);
      this.#wake = wake;
    });
  }

  stop(): void {
    this.#bells.unsubscribe(this);
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#passOn(this.#wokenFor);
    this.#passOn(this.#woken);
  }

  #passOn(job: QueuedJob | null): void {
    this.#wokenFor = null;
    if (job) this.#bells.wake(job);
  }
}

const POLL_EVERY_MS = 1_000;
