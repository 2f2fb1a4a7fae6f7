/** A worker for the example workflows that records the work it receives. */
import type { Stop } from "../../../src/ports/bus.ts";
import { retryAfter, type Transport, type WorkItem, worker } from "../../../src/worlds/worker-sdk.ts";

export interface ReceivedWork {
  readonly jobId: string;
  readonly attempt: number;
  readonly atMs: number;
}

export class CountingWorker {
  readonly received: ReceivedWork[] = [];
  #stop: Stop = async () => undefined;

  async start(id: string, transport: Transport): Promise<void> {
    const topics = ["demo.echo", "demo.flaky", "demo.slow"];
    this.#stop = await worker({ id, topics, transport, concurrency: 32, handle: (item) => this.#work(item) });
  }

  stop(): Promise<void> {
    return this.#stop();
  }

  async #work({ jobId, attempt, topic, input, signal }: WorkItem): Promise<unknown> {
    this.received.push({ jobId, attempt, atMs: Date.now() });
    switch (topic.split(".").at(-1)) {
      case "flaky":
        // Counts received attempts, because some attempts do not reach the worker.
        if (this.received.filter((one) => one.jobId === jobId).length < 3) throw retryAfter(new Error("not yet"), 50);
        return "paid";
      case "slow":
        // Runs until it is aborted.
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      default:
        return input;
    }
  }
}
