import type { World } from "../../ports/world.ts";
import { workSubject } from "../../protocol/subjects.ts";
import type { EventFeed, JobUpdate } from "../observe/index.ts";

/**
 * Those who wait in this process for work over HTTP, and whom a job wakes that joins a backlog.
 *
 * 1. A job wakes one of those who may have it, who has waited for the longest; not all of them, to find that it has gone.
 * 2. Who was woken and took nothing, or has gone, wakes the next that has not looked since. So a job that only one of
 *    many can do reaches that one.
 * 3. Who is looking when a job comes looks again.
 * 4. Hints only: everybody looks again within a second in any case.
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
  /** By the subject of the work; who waits for the longest comes first. */
  readonly #ofSubject = new Map<string, Set<Waiter>>();
  #count = 0;
  #stopListening = (): void => {};
  /** The number of the last job that was heard of. */
  #heard = 0;

  constructor(world: World, notices: EventFeed) {
    this.#world = world;
    this.#notices = notices;
  }

  subscribe(filter: WaiterFilter): Waiter {
    const waiter = new Waiter(this.#world, filter, this);
    if (this.#count++ === 0) this.#stopListening = this.#notices.subscribe((notice) => this.#hear(notice));
    this.moveLast(waiter);
    return waiter;
  }

  /** Nobody rings it any more. */
  unsubscribe(waiter: Waiter): void {
    for (const subject of waiter.subjects) {
      const waiters = this.#ofSubject.get(subject);
      waiters?.delete(waiter);
      if (waiters?.size === 0) this.#ofSubject.delete(subject);
    }
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
    return this.#heard;
  }

  /** Wakes the one that waits for the longest and has not looked since; else all who are looking look again. */
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
    if (state === "SCHEDULED") this.wake({ sequence: ++this.#heard, org, subject: workSubject(topic) });
  }
}

/** A job that has joined a backlog. */
export interface QueuedJob {
  readonly sequence: number;
  readonly org: string;
  readonly subject: string;
}

export class Waiter {
  readonly org: string;
  readonly subjects: ReadonlySet<string>;
  /** What had been heard of when it last began to look. */
  polledSequence = 0;
  readonly #world: World;
  readonly #bells: LongPollWaiters;
  readonly #signal: AbortSignal;
  /** Rung since it began to look: looking again is worth while. */
  #rung: QueuedJob | null = null;
  /** What it was woken for. */
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
    this.#rung = job;
    this.#wake?.();
  }

  /** What rings from now on says that looking again is worth while. */
  beginPoll(): void {
    this.polledSequence = this.#bells.lastSequence;
    this.#wokenFor = this.#rung;
    this.#rung = null;
  }

  /** There was something: nobody else has to be woken for it. */
  endPoll(): void {
    this.#wokenFor = null;
  }

  /** There was nothing: until it rings, or now and then in any case. */
  wait(restMs: number): Promise<void> {
    const { clock, random } = this.#world;
    this.#passOn(this.#wokenFor);
    if (this.#rung || this.#signal.aborted) return Promise.resolve();
    this.#bells.moveLast(this);
    return new Promise((resolve) => {
      const wake = () => {
        cancel();
        this.#wake = null;
        resolve();
      };
      const cancel = clock.after(Math.min(restMs, LOOK_EVERY_MS * (0.5 + random.next() / 2)), wake);
      this.#wake = wake;
    });
  }

  stop(): void {
    this.#bells.unsubscribe(this);
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#passOn(this.#wokenFor);
    this.#passOn(this.#rung);
  }

  #passOn(job: QueuedJob | null): void {
    this.#wokenFor = null;
    if (job) this.#bells.wake(job);
  }
}

const LOOK_EVERY_MS = 1_000;
