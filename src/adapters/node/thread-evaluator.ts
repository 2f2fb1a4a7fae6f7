/**
 * The evaluator in a thread of its own, one task at a time.
 *
 * 1. The thread starts with the first task and does not keep the process alive.
 * 2. A task that exceeds its time or the heap of the thread ends with the thread. The next task gets a new one.
 * 3. Waiting tasks are bounded in total and per tenant.
 */
import { createRequire } from "node:module";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import type { TaskInput, TaskName, TaskOutcome } from "../../core/evaluation/tasks.ts";
import type { Busy, Evaluator } from "../../ports/evaluator.ts";
import type { TaskMessage } from "./evaluation-thread.ts";

export const EVALUATION_LIMITS = {
  taskMs: 5_000,
  startMs: 30_000,
  heapMb: 256,
  waiting: 32,
  waitingPerOrg: 8,
} as const;

export interface ThreadEvaluator extends Evaluator {
  close(): Promise<void>;
}

export function threadEvaluator(taskMs: number = EVALUATION_LIMITS.taskMs): ThreadEvaluator {
  const queue = new TaskQueue();
  let thread: TaskThread | null = null;
  let isClosed = false;
  return {
    async run(org, name, input) {
      const slot = queue.enter(org);
      if (slot.kind === "busy") return slot;
      try {
        await slot.turn;
        if (isClosed) throw new Error("the evaluator is closed");
        if (thread === null || thread.hasEnded) thread = new TaskThread();
        return await thread.run(name, input, taskMs);
      } finally {
        slot.leave();
      }
    },
    async close() {
      isClosed = true;
      await thread?.end();
    },
  };
}

class TaskQueue {
  readonly #perOrg = new Map<string, number>();
  #count = 0;
  #last: Promise<void> = Promise.resolve();

  /** `turn` resolves when all earlier tasks have left. */
  enter(org: string): Busy | { readonly kind: "entered"; readonly turn: Promise<void>; leave(): void } {
    const own = this.#perOrg.get(org) ?? 0;
    const { waiting, waitingPerOrg } = EVALUATION_LIMITS;
    if (own >= waitingPerOrg) return { kind: "busy", current: own, limit: waitingPerOrg };
    if (this.#count >= waiting) return { kind: "busy", current: this.#count, limit: waiting };
    this.#count += 1;
    this.#perOrg.set(org, own + 1);
    const turn = this.#last;
    let done = () => {};
    this.#last = new Promise((resolve) => {
      done = resolve;
    });
    return { kind: "entered", turn, leave: () => this.#leave(org, done) };
  }

  #leave(org: string, done: () => void): void {
    this.#count -= 1;
    const own = (this.#perOrg.get(org) ?? 1) - 1;
    if (own === 0) this.#perOrg.delete(org);
    else this.#perOrg.set(org, own);
    done();
  }
}

/** In tests the thread runs from source, and needs a loader like this process. */
function sourceProgram(): string {
  const loader = createRequire(import.meta.url)
    .resolve("tsx/esm/api")
    .replace(/\.cjs$/, ".mjs");
  const file = new URL("./evaluation-thread.ts", import.meta.url);
  const load = (url: string) => `import(${JSON.stringify(url)})`;
  return `${load(pathToFileURL(loader).href)}.then(({ register }) => { register(); return ${load(file.href)}; });`;
}

type Answer<N extends TaskName> = TaskOutcome<N> | { readonly kind: "failed"; readonly error: string };

class TaskThread {
  hasEnded = false;
  readonly #worker: Worker;
  readonly #ready: Promise<void>;

  constructor() {
    const options = { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: EVALUATION_LIMITS.heapMb } };
    this.#worker = import.meta.url.endsWith(".ts")
      ? new Worker(sourceProgram(), { ...options, eval: true })
      : new Worker(new URL(`./evaluation-thread${extname(import.meta.url)}`, import.meta.url), options);
    this.#worker.unref();
    this.#worker.once("exit", () => {
      this.hasEnded = true;
    });
    this.#ready = this.#next<"ready">(EVALUATION_LIMITS.startMs, () => {}).then((message) => {
      if (message !== "ready") throw new Error(`the evaluation thread did not start: ${message.why}`);
    });
    this.#ready.catch(() => {});
  }

  async run<N extends TaskName>(name: N, input: TaskInput<N>, taskMs: number): Promise<TaskOutcome<N>> {
    await this.#ready;
    const message: TaskMessage = { name, input };
    const answer = await this.#next<Answer<N>>(taskMs, () => this.#worker.postMessage(message));
    if (answer.kind === "failed") throw new Error(`evaluation failed: ${answer.error}`);
    return answer;
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  /** The next message, or `over` if the thread ended or was ended before. */
  #next<T>(msMax: number, begin: () => void): Promise<T | { readonly kind: "over"; readonly why: string }> {
    const worker = this.#worker;
    return new Promise((resolve, reject) => {
      let why = "evaluation exceeded the memory limit";
      const timer = setTimeout(() => {
        why = `evaluation exceeded ${msMax} ms`;
        void worker.terminate();
      }, msMax);
      const settle = () => {
        clearTimeout(timer);
        worker.off("message", onMessage).off("exit", onExit).off("error", onError);
        worker.unref();
      };
      const onMessage = (message: T) => {
        settle();
        resolve(message);
      };
      const onExit = () => {
        settle();
        resolve({ kind: "over", why });
      };
      const onError = (error: Error & { readonly code?: string }) => {
        if (error.code === "ERR_WORKER_OUT_OF_MEMORY") return;
        settle();
        reject(error);
      };
      worker.on("message", onMessage).on("exit", onExit).on("error", onError);
      worker.ref();
      begin();
    });
  }
}
