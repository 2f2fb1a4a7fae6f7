import type { Encoded } from "./encode.ts";
import type { RedisPipe } from "./pipe.ts";
import type { Script } from "./script.ts";

/**
 * A script that takes many calls at once: those of one tick are one command. Most of what a small command costs, on both
 * sides, is that it is a command.
 *
 * 1. The script gets the arguments of one call after the other and answers with a list, an answer for each.
 * 2. A command carries at most `CALLS_MAX` calls or about `TEXT_MAX` characters, so that it never keeps the server from
 *    others for long. A call that is larger than that goes alone. As many calls as fit leave at once: the server begins
 *    with them while we are still at the rest of the tick, instead of each waiting for the other in turn.
 * 3. If the command fails, each of its calls fails: whether it was carried out is not known.
 */
export class RedisBatch {
  readonly #pipe: RedisPipe;
  readonly #script: Script;
  #calls: Call[] = [];

  constructor(pipe: RedisPipe, script: Script) {
    this.#pipe = pipe;
    this.#script = script;
    pipe.addSource(() => this.#gather());
  }

  call(args: Encoded): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#calls.push({ args, resolve, reject }) < CALLS_MAX) this.#pipe.arm();
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
      const args = batch.map((call) => call.args);
      settle(batch, this.#pipe.runEncoded(this.#script, args) as Promise<readonly unknown[]>);
      from = to;
    }
  }
}

export const CALLS_MAX = 64;
const TEXT_MAX = 1024 * 1024;

export interface Settle<T> {
  resolve(value: T): void;
  reject(error: unknown): void;
}

interface Call extends Settle<unknown> {
  readonly args: Encoded;
}

/** Gives each call of a batch its own answer, or all of them the batch's failure. */
export function settle<T>(batch: readonly Settle<T>[], answers: Promise<readonly T[]>): void {
  answers.then(
    (replies) => {
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
