import type { Cancel } from "../../ports/clock.ts";
import { SteadyClock, type TimeSource } from "../../ports/steady-clock.ts";
import type { RedisPipe } from "./pipe.ts";
import { CLOCK } from "./scripts/clock.ts";

/**
 * A clock that follows the time of the cluster, which Redis keeps (`src/adapters/redis/scripts/clock.ts`). All processes
 * agree on it, whatever their system clocks show. While Redis does not answer, the clock advances with monotonic time.
 */
export class SharedClock extends SteadyClock {
  readonly #source: TimeSource;
  readonly #pipe: RedisPipe;
  #serverAheadMs = 0;
  #isClosed = false;
  #next: Cancel = () => {};

  private constructor(source: TimeSource, pipe: RedisPipe) {
    super(source);
    this.#source = source;
    this.#pipe = pipe;
  }

  static async open(source: TimeSource, pipe: RedisPipe): Promise<SharedClock> {
    const clock = new SharedClock(source, pipe);
    if (!(await clock.read())) {
      // A process that runs reads the time meanwhile.
      await new Promise<void>((resolve) => source.after(1.5 * READ_EVERY_MS, resolve));
      await clock.read(true);
    }
    clock.#schedule();
    return clock;
  }

  /** False before the first time, if the time has a gap that `isGapAccepted` does not accept. */
  async read(isGapAccepted = false): Promise<boolean> {
    const sentMs = this.#source.monotonicMs();
    const args = [String(this.followedMs ?? ""), isGapAccepted ? "1" : ""];
    const [atMs, wallMs] = (await this.#pipe.run(CLOCK, args)) as readonly string[];
    if (atMs === undefined) return false;
    this.#serverAheadMs = Number(wallMs) - Number(atMs);
    this.follow(Number(atMs) + (this.#source.monotonicMs() - sentMs) / 2);
    return true;
  }

  /** What the clock of the server shows at a time of the cluster, unless it steps until then. */
  toServerMs(atMs: number): number {
    return atMs + this.#serverAheadMs;
  }

  close(): void {
    this.#isClosed = true;
    this.#next();
  }

  #schedule(): void {
    if (this.#isClosed) return;
    this.#next = this.#source.after(READ_EVERY_MS, () => {
      // An error means that Redis is away; the next read follows.
      void this.read()
        .catch(() => undefined)
        .then(() => this.#schedule());
    });
  }
}

const READ_EVERY_MS = 1_000;
