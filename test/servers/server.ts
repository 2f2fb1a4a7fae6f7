// A real server as a child of the test process.
//
// 1. Free loopback port, folder of its own. A port lost to somebody else between looking and binding is replaced.
// 2. Ready means: this very process has answered in its protocol. A stranger on the same port does not count.
// 3. `restart()` is kill -9 and a start on the same port and folder.
// 4. It does not outlive the test process, however that ends: a guard waits for its standard input to close.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay, setImmediate as immediate } from "node:timers/promises";
import { freePort } from "./ports.ts";

export interface StartOptions {
  /** Where it keeps its data; left alone by `stop()`. A temporary folder, removed by `stop()`, when not given. */
  readonly dir?: string;
  readonly port?: number;
}

export interface RunningServer {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  /** Of the process running now; another one after `restart()`. */
  readonly pid: number;
  /** Ends it in good order and removes its temporary folder. */
  stop(): Promise<void>;
  /** Ends it at once and leaves its folder; `restart()` brings it back. */
  kill(signal?: NodeJS.Signals): Promise<void>;
  /** Stands still, connections open, until `resume()`; resolves when it does. */
  pause(): Promise<void>;
  resume(): void;
  restart(): Promise<void>;
}

/** What differs between one kind of server and another. */
export interface ServerKind {
  readonly name: string;
  /** Path of the binary; null when there is none. */
  find(): string | null;
  /** Whom it runs as: some servers refuse to be root. The caller's own user when not given. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  readonly scheme: string;
  args(port: number, dir: string): Promise<string[]>;
  /** Asks over the protocol; false or a rejection means not yet. */
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
  const dirIsOurs = options.dir === undefined;
  try {
    for (let tries = 1; ; tries += 1) {
      const port = options.port ?? (await pickPort());
      try {
        return new Server(kind, port, dir, dirIsOurs, await launch(kind, port, dir, dirIsOurs));
      } catch (error) {
        if (options.port !== undefined || !(error instanceof PortTaken) || tries === PORT_TRIES_MAX) throw error;
      }
    }
  } catch (error) {
    if (dirIsOurs) await rm(dir, { recursive: true, force: true });
    throw error;
  }
}

class Server implements RunningServer {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  readonly #kind: ServerKind;
  readonly #dirIsOurs: boolean;
  #child: Child;

  constructor(kind: ServerKind, port: number, dir: string, dirIsOurs: boolean, child: Child) {
    this.url = `${kind.scheme}://127.0.0.1:${port}`;
    this.port = port;
    this.dir = dir;
    this.#kind = kind;
    this.#dirIsOurs = dirIsOurs;
    this.#child = child;
  }

  get pid(): number {
    return this.#child.pid;
  }

  async stop(): Promise<void> {
    // A paused process does not see SIGTERM until it goes on.
    this.resume();
    const overdue = setTimeout(() => this.#child.process.kill("SIGKILL"), STOP_WAIT_MS_MAX);
    await this.kill("SIGTERM");
    clearTimeout(overdue);
    if (this.#dirIsOurs) await rm(this.dir, { recursive: true, force: true });
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await end(this.#child, signal);
  }

  async pause(): Promise<void> {
    this.#child.process.kill("SIGSTOP");
    // One thread takes the signal and stops the others; until it has, they may still answer.
    while (!(await isStopped(this.pid))) await immediate();
  }

  resume(): void {
    this.#child.process.kill("SIGCONT");
  }

  async restart(): Promise<void> {
    await this.kill();
    this.#child = await launch(this.#kind, this.port, this.dir, this.#dirIsOurs);
  }
}

async function isStopped(pid: number): Promise<boolean> {
  const tasks = `/proc/${pid}/task`;
  // Elsewhere than on Linux there is no such folder, and no way to know but to trust the signal.
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
  /** What it has written so far. */
  log(): string;
}

type Owner = NonNullable<ServerKind["owner"]>;

class PortTaken extends Error {}

async function launch(kind: ServerKind, port: number, dir: string, dirIsOurs: boolean): Promise<Child> {
  const binary = kind.find();
  if (binary === null) throw new Error(`no ${kind.name} server found: \`npm test\` says how to install it`);
  const child = spawnChild(binary, await kind.args(port, dir), kind.owner ?? {}, dirIsOurs ? dir : "");
  try {
    await untilReady(kind, port, child);
    return child;
  } catch (error) {
    await end(child, "SIGKILL");
    throw error;
  }
}

async function end(child: Child, signal: NodeJS.Signals): Promise<void> {
  // Counted again as a reason to stay: what waits for its end must not see the process run out of things to do.
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
      // Enough to say why it did not start; a server that runs for long must not fill the test's memory.
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

/** Ends the server when this process is gone, even by kill -9: then the guard's standard input closes. */
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
  // Also ends a question that is under way: a stranger on the port may accept it and never answer.
  const giveUp = new AbortController();
  void child.exited.then(() => giveUp.abort("ended"));
  const overdue = setTimeout(() => giveUp.abort("overdue"), READY_WAIT_MS_MAX);
  try {
    while (!(await kind.isReady({ port, pid: child.pid, signal: giveUp.signal }).catch(() => false))) {
      if (giveUp.signal.aborted) throw failure(kind, port, child, giveUp.signal.reason === "overdue");
      // Between two questions, not instead of one: nothing tells us when a port begins to listen.
      await delay(READY_POLL_MS);
    }
  } finally {
    clearTimeout(overdue);
  }
}

function failure(kind: ServerKind, port: number, child: Child, isOverdue: boolean): Error {
  if (isOverdue)
    return new Error(`${kind.name} gave no answer within ${READY_WAIT_MS_MAX} ms; it said:\n${child.log()}`);
  if (/address already in use/i.test(child.log())) {
    return new PortTaken(`port ${port} is taken: ${kind.name} could not listen on it; give another or none`);
  }
  return new Error(`${kind.name} ended before it was ready; it said:\n${child.log()}`);
}
