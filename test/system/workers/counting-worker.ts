/** The worker of the example workflows in a test's own process, which keeps a record of everything that it was given. */
import type { Stop } from "../../../src/ports/bus.ts";
import { retryAfter, type Transport, type WorkItem, worker } from "../../../src/worlds/worker-sdk.ts";

export interface DecisionContext {
  readonly jobId: string;
  readonly attempt: number;
  readonly atMs: number;
}

export class CountingWorker {
  readonly given: DecisionContext[] = [];
  #stop: Stop = async () => undefined;

  async start(id: string, transport: Transport): Promise<void> {
    const topics = ["demo.echo", "demo.flaky", "demo.slow"];
    this.#stop = await worker({ id, topics, transport, concurrency: 32, handle: (item) => this.#work(item) });
  }

  stop(): Promise<void> {
    return this.#stop();
  }

  async #work({ jobId, attempt, topic, input, signal }: WorkItem): Promise<unknown> {
    this.given.push({ jobId, attempt, atMs: Date.now() });
    switch (topic.split(".").at(-1)) {
      case "flaky":
        // As often as the worker was asked, not as the attempts are numbered: some never reach it.
        if (this.given.filter((one) => one.jobId === jobId).length < 3) throw retryAfter(new Error("not yet"), 50);
        return "paid";
      case "slow":
        // Until nobody waits for it any more.
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      default:
        return input;
    }
  }
}
