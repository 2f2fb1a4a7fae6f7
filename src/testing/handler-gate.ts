import { AsyncLocalStorage } from "node:async_hooks";
import { permanent, retryAfter } from "../core/retry/intent.ts";
import type { Process } from "../sim/process.ts";
import type { WorkItem } from "../worker/worker.ts";
import { PlaneError } from "./plane-error.ts";
import { type Duration, durationMs } from "./virtual-duration.ts";

/** A job as the handler of a test plane receives it: that of `cordum/worker`, with virtual time. */
export interface TestJob extends WorkItem {
  /** The virtual time. */
  now(): Date;
  /** Waits in virtual time. Rejects with the reason of `signal` when the attempt is aborted meanwhile. */
  sleep(duration: Duration): Promise<void>;
  /** The error to throw for a retry after a delay; the same function as in `cordum/worker`. */
  retryAfter(error: unknown, delay: Duration): Error;
  /** The error to throw for a failure that no retry can repair; the same function as in `cordum/worker`. */
  permanent(error: unknown): Error;
}

/** Does the work of one attempt; its result is the result of the job. */
export type TestHandler = (job: TestJob) => unknown;

/**
 * Runs the handlers of the user between the events of the timeline.
 *
 * 1. Virtual time stands still while a handler does real work. It continues when every handler has settled or waits for
 *    virtual time (`sleep`, a request to the plane).
 * 2. Results are reported in the order in which the handlers started, so real time does not affect the history.
 * 3. A handler whose process has crashed never continues: its virtual waits do not end.
 * 4. A handler that does real work for longer than the limit is an error that names its job.
 */
export class HandlerGate {
  readonly #calls = new Set<Call>();
  readonly #current = new AsyncLocalStorage<Call>();
  readonly #options: HandlerGateOptions;
  #onChange: () => void = () => {};

  constructor(options: HandlerGateOptions) {
    this.#options = options;
  }

  /** The number of handlers that have not reported their result. */
  get running(): number {
    return this.#calls.size;
  }

  /** Called by the timeline after each event. */
  wait(): Promise<void> | null {
    if (!this.#hasRealWork()) {
      this.#report();
      return null;
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#onChange = () => {};
        reject(this.#hungError());
      }, this.#options.handlerMsMax);
      this.#onChange = () => {
        if (this.#hasRealWork()) return;
        this.#onChange = () => {};
        clearTimeout(timer);
        this.#report();
        resolve();
      };
    });
  }

  /** The result of the handler, reported `reportAfterMs` after it has settled. */
  run(process: Process, item: WorkItem, handler: TestHandler): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call: Call = { item, process, waits: 0, report: null };
      this.#calls.add(call);
      process.onEnd(() => this.#remove(call));
      const settle = (report: () => void): void => {
        call.report = report;
        this.#onChange();
      };
      this.#current
        .run(call, async () => handler(this.#jobOf(call)))
        .then(
          (value) => settle(() => resolve(value)),
          (error: unknown) => settle(() => reject(error)),
        );
    });
  }

  /** A virtual wait: if a handler started it, time continues meanwhile. */
  async virtually<T>(start: () => Promise<T>): Promise<T> {
    const call = this.#current.getStore();
    if (call === undefined || !this.#calls.has(call)) return start();
    call.waits += 1;
    this.#onChange();
    try {
      return await start();
    } finally {
      // A crashed process does not continue.
      if (!call.process.isAlive) await new Promise<never>(() => {});
      call.waits -= 1;
    }
  }

  #hasRealWork(): boolean {
    for (const { waits, report } of this.#calls) if (waits === 0 && report === null) return true;
    return false;
  }

  #report(): void {
    for (const call of this.#calls) {
      const { report, process } = call;
      if (report === null) continue;
      this.#calls.delete(call);
      process.after(this.#options.reportAfterMs(process), report);
    }
  }

  #remove(call: Call): void {
    this.#calls.delete(call);
    this.#onChange();
  }

  #hungError(): PlaneError {
    const hung = [...this.#calls].filter(({ waits, report }) => waits === 0 && report === null);
    const names = hung.map(({ item }) => `\`${item.topic}\` (job \`${item.jobId}\`, attempt ${item.attempt})`);
    for (const call of hung) this.#calls.delete(call);
    const message =
      `handler of ${names.join(", ")} did not settle within ${this.#options.handlerMsMax} ms of real time; ` +
      "await virtual time with `job.sleep`, replace what it waits for, or raise `limits.handlerMs`";
    const facts = { job_ids: hung.map(({ item }) => item.jobId), topics: hung.map(({ item }) => item.topic) };
    return new PlaneError("handler_hung", message, { facts });
  }

  #jobOf(call: Call): TestJob {
    const additions = {
      now: () => new Date(this.#options.nowMs()),
      sleep: (duration: Duration) => this.#sleep(call, durationMs(duration, "sleep")),
      retryAfter: (error: unknown, delay: Duration) => retryAfter(error, durationMs(delay, "retryAfter")),
      permanent: (error: unknown) => permanent(error),
    };
    // Descriptors: `signal` and `details` are computed when they are read.
    return Object.defineProperties(additions, Object.getOwnPropertyDescriptors(call.item)) as unknown as TestJob;
  }

  #sleep(call: Call, ms: number): Promise<void> {
    const { signal } = call.item;
    return this.virtually(
      () =>
        new Promise((resolve, reject) => {
          const abort = (): void => {
            cancel();
            reject(signal.reason);
          };
          const cancel = call.process.after(ms, () => {
            signal.removeEventListener("abort", abort);
            resolve();
          });
          if (signal.aborted) abort();
          else signal.addEventListener("abort", abort, { once: true });
        }),
    );
  }
}

export interface HandlerGateOptions {
  /** The real time that a handler may take without virtual waits. */
  readonly handlerMsMax: number;
  nowMs(): number;
  /** The virtual time between the end of a handler and its report. */
  reportAfterMs(process: Process): number;
}

interface Call {
  readonly item: WorkItem;
  readonly process: Process;
  /** Virtual waits in progress. */
  waits: number;
  /** Settles the promise of the worker; null while the handler runs. */
  report: (() => void) | null;
}
