// Measuring processes: one is started for each measurement, so that no measurement inherits another's heap and code.
//
// 1. They run a bundle of the sources, made as the shipped program is made: a loader that compiles on the fly (as the
//    one that runs this file) keeps function names by a call at every closure, which is not what users run.
// 2. All of them, ours and others', have as much room for young objects as `npm start` gives (`docs/operations.md`).
// 3. A child ends when its parent is gone.

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
    // Inside the project, because the bundle finds its packages from where it lies.
    const cache = join(ROOT, "node_modules", ".cache");
    await mkdir(cache, { recursive: true });
    const dir = await mkdtemp(join(cache, "cordum-bench-"));
    const entry = join(dir, "child.mjs");
    await build({
      absWorkingDir: ROOT,
      entryPoints: ["bench/child/main.ts"],
      outfile: entry,
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
    // A profile points into the bundle, and is read with its source map beside it.
    if (this.#profiling.length > 0) return;
    await rm(this.#dir, { recursive: true, force: true });
  }

  /** Does a task in a process of its own and resolves with its figures. */
  run<F>(task: Task): Promise<F> {
    return this.#begin<F>(task).done;
  }

  /** Starts a task that says when it is ready. */
  async start<F>(task: Task): Promise<Child<F>> {
    const child = this.#begin<F>(task);
    await Promise.race([child.ready, child.done]);
    return child;
  }

  #begin<F>(task: Task): Child<F> {
    const execArgv = [YOUNG_ROOM, ...this.#profiling];
    const child = fork(this.#entry, { execArgv, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    const answers = listen<F>(child);
    tell(child, { kind: "task", task });
    const stop = () => {
      tell(child, { kind: "stop" });
      return answers.done;
    };
    return { pid: child.pid ?? 0, ...answers, stop };
  }
}

export interface Child<F> {
  readonly pid: number;
  readonly ready: Promise<void>;
  /** Resolves when the process has answered and is gone. */
  readonly done: Promise<F>;
  stop(): Promise<F>;
}

function listen<F>(child: ChildProcess): { ready: Promise<void>; done: Promise<F> } {
  let isReady = () => {};
  const ready = new Promise<void>((resolve) => {
    isReady = resolve;
  });
  const done = new Promise<F>((resolve, reject) => {
    let answer: FromChild | null = null;
    child.on("message", (message: FromChild) => {
      if (message.kind === "ready") isReady();
      else answer = message;
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (answer?.kind === "done") resolve(answer.figures as F);
      else if (answer?.kind === "failed") reject(new Error(`a measuring process failed: ${answer.error}`));
      else reject(new Error(`a measuring process ended (${signal ?? code}) without an answer`));
    });
  });
  // Whoever waits for `ready` first sees the failure there; it is not unhandled.
  done.catch(() => {});
  return { ready, done };
}

function tell(child: ChildProcess, message: ToChild): void {
  if (child.connected) child.send(message);
}

const YOUNG_ROOM = "--max-semi-space-size=64";
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
