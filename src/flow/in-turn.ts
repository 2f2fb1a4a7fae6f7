import type { Cancel } from "../ports/clock.ts";
import { IN_TIME, type Rhythm, turnOf } from "../retry/rhythm.ts";
import type { World } from "../world.ts";

type Outside = Pick<World, "clock" | "random">;

/** Lets those go one after the other who were to come back each at a time of its own (see `retry/rhythm.ts`). */
export class Turns {
  /** Who waits, by their times: after a halt the one with the earliest time tells how long it was. */
  readonly #waiting: Waiting[] = [];
  #rhythm: Rhythm = IN_TIME;
  #next: Cancel = () => {};

  /** Resolves when it is the turn of who was to come at `dueMs`; mostly at once, and within about a second. */
  wait(outside: Outside, dueMs: number): Promise<void> {
    return new Promise((go) => this.#join(outside, { dueMs, isScattered: false, go }));
  }

  #join(outside: Outside, one: Waiting): void {
    const at = this.#waiting.findLastIndex((other) => other.dueMs <= one.dueMs) + 1;
    this.#waiting.splice(at, 0, one);
    this.#pass(outside);
  }

  #pass(outside: Outside): void {
    const { clock, random } = outside;
    this.#next();
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) return;
      const turn = turnOf(this.#rhythm, first.dueMs, clock.now());
      switch (turn.kind) {
        case "go":
          this.#rhythm = turn.rhythm;
          first.go();
          break;
        case "later":
          this.#next = clock.after(turn.waitMs, () => this.#pass(outside));
          return;
        case "any_time":
          // Once: in a process that cannot keep up he would be put off for ever.
          if (first.isScattered) first.go();
          else this.#scatter(outside, first, Math.ceil(turn.withinMs * random.next()));
          break;
        default:
          turn satisfies never;
      }
      this.#waiting.shift();
    }
  }

  /** As if that had been his time: a process that stands still once more is to keep those apart, too. */
  #scatter(outside: Outside, { go }: Waiting, afterMs: number): void {
    const dueMs = outside.clock.now() + afterMs;
    outside.clock.after(afterMs, () => this.#join(outside, { dueMs, isScattered: true, go }));
  }
}

interface Waiting {
  readonly dueMs: number;
  readonly isScattered: boolean;
  go(): void;
}
