import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { Answers, Batch } from "./sqlite-scribe.ts";
import { DirectoryFailure, type Link } from "./sqlite-writer.ts";

/**
 * Opens a data directory in a thread of its own: rows are written, and the disk is waited for, beside the work of the
 * control plane and not in between it.
 *
 * 1. Answers come in the order of the batches.
 * 2. If the thread dies, everything under way and everything after is rejected.
 * 3. The thread keeps the process alive only while somebody waits for it.
 */
export async function openThread(dir: string): Promise<Link> {
  const link = new ThreadLink(startWorker(dir));
  await link.opened;
  return link;
}

export type ToThread = Batch | "close";

export type FromThread =
  | { readonly kind: "opened" }
  | { readonly kind: "refused"; readonly why: string }
  | { readonly kind: "answers"; readonly answers: readonly Answers[] };

class ThreadLink implements Link {
  readonly opened: Promise<void>;
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  readonly #waiting: Waiting[] = [];
  #open: { readonly resolve: () => void; readonly reject: (error: Error) => void } | null = null;
  #gone: Error | null = null;

  constructor(worker: Worker) {
    this.#worker = worker;
    this.opened = new Promise((resolve, reject) => {
      this.#open = { resolve, reject };
    });
    this.#exited = new Promise((resolve) => {
      worker.once("exit", () => {
        this.#end(new DirectoryFailure("the thread of the data directory has ended"));
        resolve();
      });
    });
    worker.on("message", (message: FromThread) => this.#hear(message));
    worker.once("error", (error) => {
      this.#end(new DirectoryFailure(`the thread of the data directory died: ${error.message}`, { cause: error }));
    });
  }

  run(batch: Batch): Promise<Answers> {
    if (this.#gone) return Promise.reject(this.#gone);
    if (this.#waiting.length === 0) this.#worker.ref();
    return new Promise((resolve, reject) => {
      this.#worker.postMessage(batch satisfies ToThread);
      this.#waiting.push({ resolve, reject });
    });
  }

  async close(): Promise<void> {
    this.#worker.ref();
    this.#worker.postMessage("close" satisfies ToThread);
    await this.#exited;
  }

  #hear(message: FromThread): void {
    switch (message.kind) {
      case "opened":
        this.#open?.resolve();
        break;
      case "refused":
        this.#end(new Error(message.why));
        break;
      case "answers":
        for (const answers of message.answers) this.#waiting.shift()!.resolve(answers);
        break;
      default:
        message satisfies never;
    }
    if (this.#waiting.length === 0) this.#worker.unref();
  }

  #end(error: Error): void {
    this.#gone ??= error;
    this.#open?.reject(this.#gone);
    for (const { reject } of this.#waiting.splice(0)) reject(this.#gone);
  }
}

interface Waiting {
  readonly resolve: (answers: Answers) => void;
  readonly reject: (error: Error) => void;
}

/** The thread's file stands beside this one, or beside the bundle that this one is in. */
function startWorker(workerData: string): Worker {
  const extension = extname(import.meta.url);
  const file = new URL(`./sqlite-thread${extension}`, import.meta.url);
  if (extension !== ".ts") return new Worker(file, { workerData });
  // TypeScript needs a loader, which a thread does not inherit. It is found from the working directory: a checkout.
  const load = `import("tsx/esm/api").then(({ tsImport }) => tsImport("${file}", "${import.meta.url}"))`;
  return new Worker(load, { eval: true, workerData });
}
