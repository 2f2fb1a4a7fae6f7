/**
 * Optimistic concurrency on one row: a client reads the version, writes with the version it read, and on a conflict backs
 * off and reads again. The model of the AWS Architecture Blog, "Exponential Backoff And Jitter", whose figures validate the
 * simulator and the retry policies.
 *
 * 1. A hop takes |N(mean, sd)|. A try has four hops: the read and the write, there and back.
 * 2. `calls` counts the writes that reached the server, accepted or rejected. Reads are not counted, which matches the
 *    published figures.
 * 3. The time ends when the last client receives the acceptance of its write.
 */
import type { SeededRandom } from "../../sim/random.ts";
import { Timeline } from "../../sim/timeline.ts";
import type { Row } from "../experiment.ts";
import { binned, mean, percentiles } from "../statistics.ts";
import type { Backoff } from "./backoff.ts";

export interface OccRequest {
  readonly clients: number;
  readonly hopMs: number;
  readonly hopMsSd: number;
  readonly backoff: Backoff;
}

export interface OccHistory {
  readonly timeMs: number;
  /** When each write reached the server, ascending. */
  readonly callsMs: readonly number[];
  /** The duration of each client, ascending. */
  readonly waitsMs: readonly number[];
}

/** The connection of a client to the row, simulated or real. */
export interface Connection {
  hop(then: () => void): void;
  later(delayMs: number, then: () => void): void;
  read(then: (version: number) => void): void;
  write(version: number, then: (isAccepted: boolean) => void): void;
  done(): void;
}

/** Updates the row once, with retries. */
export function update(connection: Connection, backoff: Backoff, random: () => number): void {
  let tries = 0;
  let delayMs: number | undefined;
  const read = (): void => connection.hop(() => connection.read(onRead));
  const onRead = (version: number): void =>
    connection.hop(() => connection.hop(() => connection.write(version, onWritten)));
  const onWritten = (isAccepted: boolean): void => connection.hop(() => (isAccepted ? connection.done() : retry()));
  const retry = (): void => {
    tries += 1;
    delayMs = backoff?.(tries, random, delayMs) ?? 0;
    connection.later(delayMs, read);
  };
  read();
}

export function hopOf(random: SeededRandom, { hopMs, hopMsSd }: Pick<OccRequest, "hopMs" | "hopMsSd">): number {
  return Math.abs(random.normal(hopMs, hopMsSd));
}

export async function simulateOcc(request: OccRequest, random: SeededRandom): Promise<OccHistory> {
  const timeline = new Timeline();
  const row = { version: 0 };
  const callsMs: number[] = [];
  const waitsMs: number[] = [];
  const hops = random.fork("hops");
  const connection: Connection = {
    hop: (then) => void timeline.postQuiet(hopOf(hops, request), then),
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
  for (let client = 0; client < request.clients; client += 1) {
    const own = random.fork(`client ${client}`);
    update(connection, request.backoff, () => own.next());
  }
  // One client succeeds in every round, so the events run out.
  await timeline.runUntil(Number.MAX_SAFE_INTEGER);
  return { timeMs: waitsMs.at(-1) ?? 0, callsMs, waitsMs };
}

export function measure({ timeMs, callsMs, waitsMs }: OccHistory, clients: number, binMs: number): Omit<Row, "key"> {
  const arrivals = binned(callsMs, binMs);
  return {
    figures: {
      time_ms: timeMs,
      calls: callsMs.length,
      attempts_per_update: callsMs.length / clients,
      wait_ms: percentiles(waitsMs),
      arrivals: { bin_ms: binMs, peak: Math.max(...arrivals), mean: mean(arrivals) },
    },
    series: { arrivals, waits_ms: waitsMs },
  };
}
