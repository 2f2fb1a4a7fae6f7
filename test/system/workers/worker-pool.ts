/** Workers inside the test process. The last part of a topic selects the behaviour. */
import type { Stop } from "../../../src/ports/bus.ts";
import { permanent, retryAfter, type Transport, type WorkItem, worker } from "../../../src/worlds/worker-sdk.ts";

const BEHAVIORS = ["echo", "flaky", "later", "second", "hold", "ask", "twice"] as const;

export class WorkerPool {
  /** The number of started attempts by job. */
  readonly attempts = new Map<string, number>();
  /** The abort reason of each `hold` job. */
  readonly aborted = new Map<string, string>();
  readonly #stops: Stop[] = [];

  /** Serves one topic per behaviour, e.g. `<prefix>.echo`. */
  async start(prefix: string, transport: Transport): Promise<void> {
    const topics = BEHAVIORS.map((behavior) => `${prefix}.${behavior}`);
    this.#stops.push(await worker({ id: `${prefix}-worker`, topics, transport, handle: (item) => this.#work(item) }));
  }

  /** Serves one topic until the returned function is called. */
  async serve(topic: string, transport: Transport): Promise<Stop> {
    const stop = await worker({
      id: topic.replace(".", "-"),
      topics: [topic],
      transport,
      handle: (item) => this.#work(item),
    });
    this.#stops.push(stop);
    return stop;
  }

  /** Resolves when a worker has started the job. */
  async started(jobId: string): Promise<void> {
    while (!this.attempts.has(jobId)) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  async stop(): Promise<void> {
    await Promise.all(this.#stops.splice(0).map((stop) => stop()));
  }

  readonly #waiting: (() => void)[] = [];

  async #work(item: WorkItem): Promise<unknown> {
    const { jobId, attempt, input } = item;
    this.attempts.set(jobId, (this.attempts.get(jobId) ?? 0) + 1);
    for (const wake of this.#waiting.splice(0)) wake();
    switch (item.topic.split(".").at(-1)) {
      case "flaky":
        if (attempt < 3) throw retryAfter(new Error(`attempt ${attempt} failed`), 120);
        return { attempts: attempt };
      case "later":
        throw retryAfter(new Error("the other side is closed"), 3_600_000);
      case "second":
        // Fails permanently before the redrive and succeeds after it.
        if (this.attempts.get(jobId) === 1) throw permanent(new Error("the account was closed"));
        return "redriven";
      case "hold":
        item.progress(40, "holding");
        return this.#hold(item);
      default:
        return { seen: input, labels: item.labels };
    }
  }

  #hold({ jobId, signal }: WorkItem): Promise<never> {
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        this.aborted.set(jobId, String(signal.reason));
        for (const wake of this.#waiting.splice(0)) wake();
        reject(signal.reason);
      });
    });
  }

  async abortOf(jobId: string): Promise<string> {
    for (;;) {
      const why = this.aborted.get(jobId);
      if (why !== undefined) return why;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
}
