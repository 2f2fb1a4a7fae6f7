// Measuring processes: one per measurement, so that no measurement inherits the heap or the compiled code of another.
//
// 1. They run a bundle built like the released program. A just-in-time loader adds a call to every closure.
// 2. All of them have the young generation size of `npm start` (`docs/operations.md`).
// 3. A child exits when its parent exits.

import { type ChildProcess, fork } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { FromChild, Task, ToChild } from "../child/task.ts";

export class Children {
  readonly #dir: string;
  readonly #entry: string;
  readonly #profiling: readonly string[];

  private constructor(dir: string, entry: string, profiling: readonly string[]) {
    this.#dir = dir;
    this.#entry = entry;
    this.#profiling = profiling;
  }

  static async open(profileDir: string | null): Promise<Children> {
    // Inside the project, so that the bundle resolves its packages.
    const cache = join(ROOT, "node_modules", ".cache");
    await mkdir(cache, { recursive: true });
    const dir = await mkdtemp(join(cache, "cordum-bench-"));
    const entry = join(dir, "child.mjs");
    await build({
      absWorkingDir: ROOT,
      entryPoints: {
        child: "bench/child/main.ts",
        "evaluation-thread": "src/adapters/node/evaluation-thread.ts",
      },
      outdir: dir,
      outExtension: { ".js": ".mjs" },
      bundle: true,
      format: "esm",
      platform: "node",
      target: "node20",
      packages: "external",
      sourcemap: true,
      logLevel: "error",
    });
    const profiling = profileDir === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileDir}`];
    return new Children(dir, entry, profiling);
  }

  async close(): Promise<void> {
    // Profiles refer to the bundle and its source map.
    if (this.#profiling.length > 0) return;
    await rm(this.#dir, { recursive: true, force: true });
  }

  /** Runs a task in a new process and resolves with its figures. */
  run<F>(task: Task): Promise<F> {
    return this.#begin<F>(task).done;
  }

  /** Starts a task and resolves when it is ready. */
  async start<F>(task: Task): Promise<Child<F>> {
    const child = this.#begin<F>(task);
    await Promise.race([child.ready, child.done]);
    return child;
  }

  #begin<F>(task: Task): Child<F> {
    const execArgv = [YOUNG_GENERATION, ...this.#profiling];
    const child = fork(this.#entry, { execArgv, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const replies = listen<F>(child);
    send(child, { kind: "task", task });
    const stop = () => {
      send(child, { kind: "stop" });
      return replies.done;
    };
    return { pid: child.pid ?? 0, ...replies, stop };
  }
}

export interface Child<F> {
  readonly pid: number;
  readonly ready: Promise<void>;
  /** Resolves when the process has sent its figures and exited. */
  readonly done: Promise<F>;
  stop(): Promise<F>;
}

function listen<F>(child: ChildProcess): { ready: Promise<void>; done: Promise<F> } {
  let resolveReady = () => {};
  const ready = new Promise<void>((resolve) => {
    resolveReady = resolve;
  });
  const done = new Promise<F>((resolve, reject) => {
    let reply: FromChild | null = null;
    child.on("message", (message: FromChild) => {
      if (message.kind === "ready") resolveReady();
      else reply = message;
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (reply?.kind === "done") resolve(reply.figures as F);
      else if (reply?.kind === "failed") reject(new Error(`a measuring process failed: ${reply.error}`));
      else reject(new Error(`a measuring process exited (${signal ?? code}) without figures`));
    });
  });
  // `start` races `ready` with `done`, so a rejection is handled there.
  done.catch(() => {});
  return { ready, done };
}

function send(child: ChildProcess, message: ToChild): void {
  if (child.connected) child.send(message);
}

const YOUNG_GENERATION = "--max-semi-space-size=64";
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
