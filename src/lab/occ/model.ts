/**
 * Optimistic concurrency on one row: every client reads the version, writes with the version it read, and when somebody
 * else was faster it backs off and starts again with the read. Known from the AWS architecture blog, "Exponential Backoff
 * And Jitter", whose figures are the yardstick for our timeline and our policies.
 *
 * 1. A hop takes |N(mean, sd)|. A try is four of them: the read there and back, the write there and back.
 * 2. `calls` counts writes that reached the server, refused ones included; reads are not counted. That is the count that
 *    the published figures fit (with the reads they would be twice as many).
 * 3. The time is that at which the last client learns that its write was accepted.
 */
import type { SeededRandom } from "../../sim/random.ts";
import { Timeline } from "../../sim/timeline.ts";

/** The delay after so many failed tries; null: none at all. */
export type Backoff = ((attempt: number, random: () => number, previousMs: number | undefined) => number) | null;

export interface OccAsk {
  readonly clients: number;
  readonly hopMs: number;
  readonly hopMsSd: number;
  readonly backoff: Backoff;
}

export interface OccHistory {
  readonly timeMs: number;
  /** When each write reached the server, in that order. */
  readonly callsMs: readonly number[];
  /** How long each client took, in the order in which they were done. */
  readonly waitsMs: readonly number[];
}

/** One client's way to the row: simulated, or to a real one. */
export interface Seat {
  hop(then: () => void): void;
  later(delayMs: number, then: () => void): void;
  read(then: (version: number) => void): void;
  write(version: number, then: (isAccepted: boolean) => void): void;
  done(): void;
}

/** What a client does, wherever it is. */
export function update(seat: Seat, backoff: Backoff, chance: () => number): void {
  const state: { tries: number; delayMs: number | undefined } = { tries: 0, delayMs: undefined };
  const read = (): void => seat.hop(() => seat.read(answer));
  const answer = (version: number): void => seat.hop(() => seat.hop(() => seat.write(version, written)));
  const written = (isAccepted: boolean): void => seat.hop(() => (isAccepted ? seat.done() : comeBack()));
  const comeBack = (): void => {
    state.tries += 1;
    state.delayMs = backoff?.(state.tries, chance, state.delayMs) ?? 0;
    seat.later(state.delayMs, read);
  };
  read();
}

export function hopOf(random: SeededRandom, { hopMs, hopMsSd }: Pick<OccAsk, "hopMs" | "hopMsSd">): number {
  return Math.abs(random.normal(hopMs, hopMsSd));
}

export async function runOcc(ask: OccAsk, random: SeededRandom): Promise<OccHistory> {
  const timeline = new Timeline();
  const row = { version: 0 };
  const callsMs: number[] = [];
  const waitsMs: number[] = [];
  const hops = random.fork("hops");
  const seat: Seat = {
    hop: (then) => void timeline.postQuiet(hopOf(hops, ask), then),
    later: (delayMs, then) => void timeline.postQuiet(delayMs, then),
    read: (then) => then(row.version),
    write: (version, then) => {
      callsMs.push(timeline.nowMs);
      const isAccepted = version === row.version;
      if (isAccepted) row.version += 1;
      then(isAccepted);
    },
    done: () => void waitsMs.push(timeline.nowMs),
  };
  for (let client = 0; client < ask.clients; client += 1) {
    const chance = random.fork(`client ${client}`);
    update(seat, ask.backoff, () => chance.next());
  }
  // Somebody succeeds in every round, so it ends; nothing is left to happen then.
  await timeline.runUntil(Number.MAX_SAFE_INTEGER);
  return { timeMs: waitsMs.at(-1) ?? 0, callsMs, waitsMs };
}
