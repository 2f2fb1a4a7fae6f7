import { createRequire } from "node:module";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";

export interface ThreadProgram {
  /** In errors: `evaluation`. */
  readonly what: string;
  /** `import.meta.url` of a module beside the program. */
  readonly beside: string;
  /** The name of its file, without extension. It posts `"ready"`, then one answer to each message. */
  readonly name: string;
  readonly heapMb: number;
}

/** A task without an answer. */
export interface Over {
  readonly kind: "over";
  readonly why: string;
}

export interface RunOptions {
  readonly msMax: number;
  readonly signal?: AbortSignal;
}

/**
 * A thread that answers one message at a time. A task that exceeds its time or the heap of the thread, or whose signal is
 * aborted, ends with the thread. The thread does not keep the process alive.
 */
export class TaskThread {
  hasEnded = false;
  readonly #what: string;
  readonly #worker: Worker;
  readonly #ready: Promise<void>;

  constructor({ what, beside, name, heapMb }: ThreadProgram) {
    this.#what = what;
    const file = new URL(`./${name}${extname(beside)}`, beside);
    const options = { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: heapMb } };
    this.#worker = beside.endsWith(".ts")
      ? new Worker(sourceProgram(file), { ...options, eval: true })
      : new Worker(file, options);
    this.#worker.unref();
    this.#worker.once("exit", () => {
      this.hasEnded = true;
    });
    this.#ready = this.#next<"ready">({ msMax: START_MS_MAX }, () => {}).then((message) => {
      if (message !== "ready") throw new Error(`the ${what} thread did not start: ${message.why}`);
    });
    this.#ready.catch(() => {});
  }

  async run<Answer>(message: unknown, options: RunOptions): Promise<Answer | Over> {
    await this.#ready;
    return this.#next<Answer>(options, () => this.#worker.postMessage(message));
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  /** The next message, or `over` if the thread ended or was ended before. */
  #next<Answer>({ msMax, signal }: RunOptions, begin: () => void): Promise<Answer | Over> {
    const worker = this.#worker;
    return new Promise((resolve, reject) => {
      let why = `${this.#what} exceeded the memory limit`;
      const end = (reason: string) => {
        why = `${this.#what} ${reason}`;
        void worker.terminate();
      };
      const timer = setTimeout(() => end(`exceeded ${msMax} ms`), msMax);
      const onAbort = () => end("was cancelled");
      const settle = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        worker.off("message", onMessage).off("exit", onExit).off("error", onError);
        worker.unref();
      };
      const onMessage = (message: Answer) => {
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
      signal?.addEventListener("abort", onAbort, { once: true });
      if (signal?.aborted === true) onAbort();
      else begin();
    });
  }
}

/** In tests the thread runs from source, and needs a loader like this process. */
function sourceProgram(file: URL): string {
  const loader = createRequire(import.meta.url)
    .resolve("tsx/esm/api")
    .replace(/\.cjs$/, ".mjs");
  const load = (url: string) => `import(${JSON.stringify(url)})`;
  return `${load(pathToFileURL(loader).href)}.then(({ register }) => { register(); return ${load(file.href)}; });`;
}

const START_MS_MAX = 30_000;
