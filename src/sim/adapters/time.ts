import { advanceSharedTime, isGap, type SharedTime } from "../../ports/steady-clock.ts";
import type { Timeline } from "../timeline.ts";

/** The wall-clock time of virtual time 0; the value is arbitrary. */
export const EPOCH_MS = 1_700_000_000_000;

/** The clock of the store's server, which may step, and the time of the cluster that the store keeps. */
export class TimeServer {
  readonly #timeline: Timeline;
  #stepMs = 0;
  #last: SharedTime | null = null;
  /** Virtual time of the last read. */
  #readMs = 0;
  readonly #readers = new Set<() => void>();

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
  }

  stepClock(ms: number): void {
    this.#stepMs += ms;
  }

  /** Registers a process that reads the time. Calling `reader` makes it read now, if it can. */
  addReader(reader: () => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** `ownMs`: the time of the caller, null before its first read. After a gap it waits for the others, in no time. */
  read(ownMs: number | null): number {
    const wallMs = EPOCH_MS + this.#timeline.nowMs + this.#stepMs;
    if (ownMs === null && isGap(this.#last, wallMs)) for (const reader of this.#readers) reader();
    this.#last = advanceSharedTime(this.#last, wallMs, ownMs);
    this.#readMs = this.#timeline.nowMs;
    return this.#last.atMs;
  }

  /** The time of the cluster, for checks. */
  get nowMs(): number {
    return (this.#last?.atMs ?? EPOCH_MS + this.#readMs) + this.#timeline.nowMs - this.#readMs;
  }
}
