// A real server as a child of the test process.
//
// 1. It uses a free loopback port and its own directory. If the port is taken before the server binds it, another is used.
// 2. It is ready when this process (checked by its pid or name) has responded in its protocol.
// 3. `restart()` kills it with SIGKILL and starts it on the same port and directory.
// 4. It never outlives the test process: a guard process kills it when the guard's standard input closes.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay, setImmediate as immediate } from "node:timers/promises";
import { freePort } from "./ports.ts";

export interface StartOptions {
  /** Data directory, kept by `stop()`. By default a temporary directory that `stop()` removes. */
  readonly dir?: string;
  readonly port?: number;
}

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  /** Changes after `restart()`. */
  readonly pid: number;
  /** Stops it with SIGTERM and removes its temporary directory. */
  stop(): Promise<void>;
  /** Kills it and keeps its directory; `restart()` starts it again. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** Stops the process with open connections until `resume()`; resolves once all threads are stopped. */
  pause(): Promise<void>;
  resume(): void;
  restart(): Promise<void>;
}

/** The differences between server kinds. */
export interface ServerKind {
  readonly name: string;
  /** Path of the binary; null if not installed. */
  find(): string | null;
  /** User to run as: some servers refuse to run as root. Default: the user of the test process. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  readonly scheme: string;
  args(port: number, dir: string): Promise<string[]>;
  /** Sends a request; false or a rejection means not ready. */
  isReady(server: { port: number; pid: number; signal: AbortSignal }): Promise<boolean>;
}

const PORT_TRIES_MAX = 5;
const READY_POLL_MS = 10;
const READY_WAIT_MS_MAX = 30_000;
const STOP_WAIT_MS_MAX = 10_000;

export async function startServer(
  kind: ServerKind,
  options: StartOptions = {},
  pickPort: () => Promise<number> = freePort,
): Promise<RunningServer> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), `cordum-${kind.name}-`)));
  const ownsDir = options.dir === undefined;
  try {
    for (let tries = 1; ; tries += 1) {
      const port = options.port ?? (await pickPort());
      try {
        return new Server(kind, port, dir, ownsDir, await launch(kind, port, dir, ownsDir));
      } catch (error) {
        if (options.port !== undefined || !(error instanceof PortTakenError) || tries === PORT_TRIES_MAX) throw error;
      }
    }
  } catch (error) {
    if (ownsDir) await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

class Server implements RunningServer {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  readonly #kind: ServerKind;
  readonly #ownsDir: boolean;
  #child: Child;

  constructor(kind: ServerKind, port: number, dir: string, ownsDir: boolean, child: Child) {
    this.url = `${kind.scheme}://127.0.0.1:${port}`;
    this.port = port;
    this.dir = dir;
    this.#kind = kind;
    this.#ownsDir = ownsDir;
    this.#child = child;
  }

  get pid(): number {
    return this.#child.pid;
  }

  async stop(): Promise<void> {
    // A stopped process receives SIGTERM only after SIGCONT.
    this.resume();
    const timeout = setTimeout(() => this.#child.process.kill("SIGKILL"), STOP_WAIT_MS_MAX);
    await this.kill("SIGTERM");
    clearTimeout(timeout);
    if (this.#ownsDir) await rm(this.dir, { recursive: true, force: true });
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await end(this.#child, signal);
  }

  async pause(): Promise<void> {
    this.#child.process.kill("SIGSTOP");
    // Threads stop one after the other and may respond until then.
    while (!(await isStopped(this.pid))) await immediate();
  }

  resume(): void {
    this.#child.process.kill("SIGCONT");
  }

  async restart(): Promise<void> {
    await this.kill();
    this.#child = await launch(this.#kind, this.port, this.dir, this.#ownsDir);
  }
}

async function isStopped(pid: number): Promise<boolean> {
  const tasks = `/proc/${pid}/task`;
  // On systems without /proc the signal is trusted.
  const threads = await readdir(tasks).catch(() => []);
  const states = await Promise.all(
    threads.map((thread) => readFile(`${tasks}/${thread}/stat`, "utf8").catch(() => ") T")),
  );
  return states.every((line) => line.slice(line.lastIndexOf(")")).startsWith(") T"));
}

interface Child {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly exited: Promise<void>;
  /** Output so far. */
  log(): string;
}

type Owner = NonNullable<ServerKind["owner"]>;

class PortTakenError extends Error {}

async function launch(kind: ServerKind, port: number, dir: string, ownsDir: boolean): Promise<Child> {
  const binary = kind.find();
  if (binary === null) throw new Error(`no ${kind.name} server found: run \`npm test\` for installation instructions`);
  const child = spawnChild(binary, await kind.args(port, dir), kind.owner ?? {}, ownsDir ? dir : "");
  try {
    await untilReady(kind, port, child);
    return child;
  } catch (error) {
    await end(child, "SIGKILL");
    throw error;
  }
}

async function end(child: Child, signal: NodeJS.Signals): Promise<void> {
  // The event loop has to stay alive until the child has exited.
  child.process.ref();
  child.process.kill(signal);
  await child.exited;
}

function spawnChild(binary: string, args: string[], owner: Partial<Owner>, dirToRemove: string): Child {
  const child = spawn(binary, args, { ...owner, stdio: ["ignore", "pipe", "pipe"] });
  child.on("error", () => {});
  if (child.pid === undefined) throw new Error(`could not start \`${binary}\``);
  let log = "";
  for (const stream of [child.stdout, child.stderr] as (Socket | null)[]) {
    stream?.on("data", (chunk) => {
      // Bounded: only the start of the output is needed for error messages.
      if (log.length < 100_000) log += String(chunk);
    });
    stream?.unref();
  }
  child.unref();
  const guard = spawnGuard(child.pid, dirToRemove);
  const exited = once(child, "close").then(() => {
    guard.kill("SIGKILL");
  });
  return { process: child, pid: child.pid, exited, log: () => log };
}

/** Kills the server when this process ends, even by SIGKILL: the guard's standard input then closes. */
function spawnGuard(pid: number, dirToRemove: string): ChildProcess {
  const script = 'trap "" INT TERM HUP; read -r _; kill -9 "$1"; [ -z "$2" ] || rm -rf "$2"';
  const guard = spawn("/bin/sh", ["-c", script, "guard", String(pid), dirToRemove], {
    stdio: ["pipe", "ignore", "ignore"],
  });
  (guard.stdin as Socket).unref();
  guard.unref();
  return guard;
}

async function untilReady(kind: ServerKind, port: number, child: Child): Promise<void> {
  // Also aborts a pending request: another process on the port may accept it and never respond.
  const abort = new AbortController();
  void child.exited.then(() => abort.abort("exited"));
  const timeout = setTimeout(() => abort.abort("timeout"), READY_WAIT_MS_MAX);
  try {
    while (!(await kind.isReady({ port, pid: child.pid, signal: abort.signal }).catch(() => false))) {
      if (abort.signal.aborted) throw failure(kind, port, child, abort.signal.reason === "timeout");
      await delay(READY_POLL_MS);
    }
  } finally {
    clearTimeout(timeout);
  }
}

function failure(kind: ServerKind, port: number, child: Child, isTimeout: boolean): Error {
  if (isTimeout) return new Error(`${kind.name} not ready within ${READY_WAIT_MS_MAX} ms; output:\n${child.log()}`);
  if (/address already in use/i.test(child.log())) {
    return new PortTakenError(`port ${port} is taken: ${kind.name} could not listen on it; use another port or none`);
  }
  return new Error(`${kind.name} exited before it was ready; output:\n${child.log()}`);
}
