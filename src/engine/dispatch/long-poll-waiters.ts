import type { World } from "../../ports/world.ts";
import { workSubject } from "../../protocol/subjects.ts";
import type { Notice, Notices } from "../observe/event-feed.ts";

/**
 * Those who wait in this process for work over HTTP, and whom a job wakes that joins a backlog.
 *
 * 1. A job wakes one of those who may have it, who has waited for the longest; not all of them, to find that it has gone.
 * 2. Who was woken and took nothing, or has gone, wakes the next that has not looked since. So a job that only one of
 *    many can do reaches that one.
 * 3. Who is looking when a job comes looks again.
 * 4. Hints only: everybody looks again within a second in any case.
 */
export interface Ear {
  /** `*` for any tenant. */
  readonly org: string;
  readonly topics: readonly string[];
  readonly signal: AbortSignal;
}

export class Bells {
  readonly #world: World;
  readonly #notices: Notices;
  /** By the subject of the work; who waits for the longest comes first. */
  readonly #ofSubject = new Map<string, Set<Bell>>();
  #count = 0;
  #stopListening = (): void => {};
  /** The number of the last job that was heard of. */
  #heard = 0;

  constructor(world: World, notices: Notices) {
    this.#world = world;
    this.#notices = notices;
  }

  hang(ear: Ear): Bell {
    const bell = new Bell(this.#world, ear, this);
    if (this.#count++ === 0) this.#stopListening = this.#notices.listen((notice) => this.#hear(notice));
    this.moveLast(bell);
    return bell;
  }

  /** Nobody rings it any more. */
  takeDown(bell: Bell): void {
    for (const subject of bell.subjects) {
      const bells = this.#ofSubject.get(subject);
      bells?.delete(bell);
      if (bells?.size === 0) this.#ofSubject.delete(subject);
    }
    if (--this.#count === 0) this.#stopListening();
  }

  moveLast(bell: Bell): void {
    for (const subject of bell.subjects) {
      const bells = this.#ofSubject.get(subject) ?? new Set();
      bells.delete(bell);
      this.#ofSubject.set(subject, bells.add(bell));
    }
  }

  get heard(): number {
    return this.#heard;
  }

  /** Wakes the one that waits for the longest and has not looked since; else all who are looking look again. */
  ring(job: Heard): void {
    const looking: Bell[] = [];
    for (const bell of this.#ofSubject.get(job.subject) ?? []) {
      if (bell.lookedAt >= job.number || (bell.org !== "*" && bell.org !== job.org)) continue;
      if (bell.isWaiting) {
        bell.ring(job);
        return;
      }
      looking.push(bell);
    }
    for (const bell of looking) bell.ring(job);
  }

  #hear({ state, org, topic }: Notice): void {
    if (state === "SCHEDULED") this.ring({ number: ++this.#heard, org, subject: workSubject(topic) });
  }
}

/** A job that has joined a backlog. */
export interface Heard {
  readonly number: number;
  readonly org: string;
  readonly subject: string;
}

export class Bell {
  readonly org: string;
  readonly subjects: ReadonlySet<string>;
  /** What had been heard of when it last began to look. */
  lookedAt = 0;
  readonly #world: World;
  readonly #bells: Bells;
  readonly #signal: AbortSignal;
  /** Rung since it began to look: looking again is worth while. */
  #rung: Heard | null = null;
  /** What it was woken for. */
  #wokenFor: Heard | null = null;
  #wake: (() => void) | null = null;
  readonly #onAbort = (): void => this.#wake?.();

  constructor(world: World, { org, topics, signal }: Ear, bells: Bells) {
    this.org = org;
    this.subjects = new Set(topics.map(workSubject));
    this.#world = world;
    this.#bells = bells;
    this.#signal = signal;
    signal.addEventListener("abort", this.#onAbort);
  }

  get isWaiting(): boolean {
    return this.#wake !== null;
  }

  ring(job: Heard): void {
    this.#rung = job;
    this.#wake?.();
  }

  /** What rings from now on says that looking again is worth while. */
  look(): void {
    this.lookedAt = this.#bells.heard;
    this.#wokenFor = this.#rung;
    this.#rung = null;
  }

  /** There was something: nobody else has to be woken for it. */
  found(): void {
    this.#wokenFor = null;
  }

  /** There was nothing: until it rings, or now and then in any case. */
  rings(restMs: number): Promise<void> {
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
    this.#bells.takeDown(this);
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#passOn(this.#wokenFor);
    this.#passOn(this.#rung);
  }

  #passOn(job: Heard | null): void {
    this.#wokenFor = null;
    if (job) this.#bells.ring(job);
  }
}

const LOOK_EVERY_MS = 1_000;
