/**
 * The evaluator in a thread of its own, one task at a time.
 *
 * 1. The thread starts with the first task and does not keep the process alive.
 * 2. A task that exceeds its time or the heap of the thread ends with the thread. The next task gets a new one.
 * 3. Waiting tasks are bounded in total and per tenant. Tenants take turns, and in a full queue a tenant with few tasks
 *    takes the place of one with many: besides the running task, a tenant waits for one of each other.
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
      const turn = await queue.enter(org);
      if (turn.kind === "busy") return turn;
      try {
        if (isClosed) throw new Error("the evaluator is closed");
        if (thread === null || thread.hasEnded) thread = new TaskThread();
        return await thread.run(name, input, taskMs);
      } finally {
        turn.leave();
      }
    },
    async close() {
      isClosed = true;
      await thread?.end();
    },
  };
}

/** Tasks that wait for the thread. */
class TaskQueue {
  /** By tenant, the first of which is next; a tenant without tasks has no entry. */
  readonly #waiting = new Map<string, Waiting[]>();
  #count = 0;
  #running: string | null = null;

  /** Resolves when the task may run, with the function to call afterwards. */
  enter(org: string): Promise<Busy | Turn> {
    const { waiting, waitingPerOrg } = EVALUATION_LIMITS;
    const own = this.#countOf(org);
    if (own >= waitingPerOrg) return Promise.resolve({ kind: "busy", current: own, limit: waitingPerOrg });
    if (this.#count >= waiting && !this.#displaceFor(own)) {
      return Promise.resolve({ kind: "busy", current: this.#count, limit: waiting });
    }
    return new Promise((settle) => {
      const tasks = this.#waiting.get(org) ?? [];
      tasks.push({ settle });
      this.#waiting.set(org, tasks);
      this.#count += 1;
      if (this.#running === null) this.#next();
    });
  }

  #countOf(org: string): number {
    return (this.#waiting.get(org)?.length ?? 0) + (this.#running === org ? 1 : 0);
  }

  /** One task of the first tenant, which then queues behind the others. */
  #next(): void {
    const [first] = this.#waiting;
    if (first === undefined) return;
    const [org, tasks] = first;
    const [task, ...rest] = tasks;
    this.#waiting.delete(org);
    if (rest.length > 0) this.#waiting.set(org, rest);
    this.#running = org;
    task?.settle({ kind: "entered", leave: () => this.#leave() });
  }

  #leave(): void {
    this.#count -= 1;
    this.#running = null;
    this.#next();
  }

  /** Refuses the newest task of the tenant with the most, if that leaves it with more than the new task's tenant has. */
  #displaceFor(own: number): boolean {
    let most: readonly [string, Waiting[]] | undefined;
    for (const entry of this.#waiting) if (entry[1].length > (most?.[1].length ?? own + 1)) most = entry;
    const displaced = most?.[1].pop();
    if (displaced === undefined) return false;
    const { waiting } = EVALUATION_LIMITS;
    this.#count -= 1;
    displaced.settle({ kind: "busy", current: waiting, limit: waiting });
    return true;
  }
}

interface Waiting {
  settle(turn: Busy | Turn): void;
}

interface Turn {
  readonly kind: "entered";
  leave(): void;
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
