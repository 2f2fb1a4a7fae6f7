import type { Engine } from "../../../src/engine/engine.ts";
import type { Backend } from "../backend.ts";

export interface CordumBackend extends Backend {
  readonly engine: Engine;
  /** Stops workers and control plane; the store stays open. */
  stop(): Promise<void>;
}

export class Stops {
  readonly #stops: (() => Promise<void>)[] = [];

  push(stop: () => Promise<void>): void {
    this.#stops.push(stop);
  }

  /** The worker, which started last, stops first, so that its jobs can finish. */
  async run(): Promise<void> {
    for (let stop = this.#stops.pop(); stop !== undefined; stop = this.#stops.pop()) await stop();
  }
}
