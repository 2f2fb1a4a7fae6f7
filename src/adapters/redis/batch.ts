import { type Encoded, encodeArgs } from "./encode.ts";
import type { RedisPipe } from "./pipe.ts";
import type { Script } from "./script.ts";

/**
 * Batches calls of one script: the calls of a tick share a command.
 *
 * 1. The script receives the arguments of all calls and returns a list with one reply per call.
 * 2. A command carries at most `CALLS_MAX` calls and about `TEXT_MAX` characters, to bound the time it blocks the server.
 *    A larger call is sent alone. A full batch is sent at once, so the server works while the tick continues.
 * 3. If the command fails, each of its calls fails with an unknown outcome.
 */
export class RedisBatch {
  readonly #pipe: RedisPipe;
  readonly #script: Script;
  readonly #head: readonly Encoded[];
  readonly #onSend: OnSend;
  #calls: Call[] = [];

  /** `head`: arguments before those of the calls. */
  constructor(pipe: RedisPipe, script: Script, head: readonly string[] = [], onSend: OnSend = () => () => {}) {
    this.#pipe = pipe;
    this.#script = script;
    this.#head = head.length === 0 ? [] : [encodeArgs(head)];
    this.#onSend = onSend;
    pipe.addSource(() => this.#gather());
  }

  call(args: Encoded): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#calls.push({ args, resolve, reject }) < CALLS_MAX) this.#pipe.scheduleFlush();
      else this.#pipe.flush();
    });
  }

  #gather(): void {
    const calls = this.#calls;
    if (calls.length === 0) return;
    this.#calls = [];
    for (let from = 0; from < calls.length; ) {
      const to = endOfBatch(calls, from);
      const batch = calls.slice(from, to);
      const args = [...this.#head, ...batch.map((call) => call.args)];
      const onEnd = this.#onSend();
      settle(batch, this.#pipe.runEncoded(this.#script, args) as Promise<readonly unknown[]>, onEnd);
      from = to;
    }
  }
}

/** Called before a command is sent; what it returns gets the reply after those of the calls. */
type OnSend = () => (last: unknown) => void;

export const CALLS_MAX = 64;
const TEXT_MAX = 1024 * 1024;

export interface Deferred<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}

interface Call extends Deferred<unknown> {
  readonly args: Encoded;
}

/** Settles each call with its reply, or all calls with the failure of the batch. */
function settle<T>(
  batch: readonly Deferred<T>[],
  answers: Promise<readonly T[]>,
  onEnd: (last: unknown) => void,
): void {
  answers.then(
    (replies) => {
      onEnd(replies[batch.length]);
      for (let at = 0; at < batch.length; at += 1) batch[at]!.resolve(replies[at]!);
    },
    (error: unknown) => {
      for (const call of batch) call.reject(error);
    },
  );
}

function endOfBatch(calls: readonly Call[], from: number): number {
  let length = 0;
  for (let to = from; to < calls.length; to += 1) {
    length += calls[to]!.args.text.length;
    if (to > from && (to - from >= CALLS_MAX || length > TEXT_MAX)) return to;
  }
  return calls.length;
}
