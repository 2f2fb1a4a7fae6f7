/**
 * A server that does one thing at a time, in the order in which it is asked: who comes in a crowd waits for the crowd. It
 * does not know who has stopped waiting, so a question that nobody wants answered any more costs as much as any other.
 */
export class OneServer {
  readonly serviceMs: number;
  #freeMs = 0;

  constructor(serviceMs: number) {
    this.serviceMs = serviceMs;
  }

  /** Somebody asks now. Gives how long it takes until he is served, his own turn included. */
  take(nowMs: number): number {
    this.#freeMs = Math.max(nowMs, this.#freeMs) + this.serviceMs;
    return this.#freeMs - nowMs;
  }
}
