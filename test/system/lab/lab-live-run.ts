/** `cordum lab … --live` as a process, and a monitor of its servers. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { expect } from "vitest";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";

export interface Ended {
  readonly exitCode: number | null;
  readonly out: string;
  readonly stderr: string;
}

export class LiveRun {
  readonly #child: ChildProcess;
  /** Resolves when the process and all children that inherited its stderr have exited. */
  readonly ended: Promise<Ended>;

  constructor(file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#child = spawn(process.execPath, [file, "lab", ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "";
    let stderr = "";
    this.#child.stdout?.on("data", (chunk) => {
      out += String(chunk);
    });
    this.#child.stderr?.on("data", (chunk) => {
      stderr += String(chunk);
    });
    this.ended = once(this.#child, "close").then(([code]) => ({ exitCode: code as number | null, out, stderr }));
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Waits for an event of the run; rejects if the run ends before. */
  async until(event: Promise<void>): Promise<void> {
    const endedEarly = this.ended.then(({ out, stderr }) => {
      throw new Error(`the run ended before the event: ${out}${stderr}`);
    });
    await Promise.race([event, endedEarly]);
  }

  /** The pids of its running member processes. */
  members(): readonly number[] {
    return childrenOf(this.#child.pid ?? 0).filter((pid) => commandOf(pid).includes("lab-live-member"));
  }
}

/** Records the keys of all Redis commands and the subjects of all control-plane messages on NATS, with any prefix. */
export class ServerMonitor {
  readonly keys = new Set<string>();
  readonly subjects = new Set<string>();
  readonly #redis: Redis;
  readonly #monitor: Redis;
  readonly #nats: NatsConnection;
  readonly #waiting: { readonly match: RegExp; readonly resolve: () => void }[] = [];

  private constructor(redis: Redis, monitor: Redis, nats: NatsConnection) {
    this.#redis = redis;
    this.#monitor = monitor;
    this.#nats = nats;
    monitor.on("monitor", (_time: string, [command = "", ...args]: string[]) => {
      for (const key of keysIn(command.toLowerCase(), args)) this.keys.add(key);
    });
    const callback = (_: unknown, { subject }: { readonly subject: string }): void => {
      this.subjects.add(subject);
      for (const { match, resolve } of this.#waiting) if (match.test(subject)) resolve();
    };
    for (const subject of SUBJECTS) nats.subscribe(subject, { callback });
  }

  static async open(nats: RunningServer, redis: RunningServer): Promise<ServerMonitor> {
    const client = new Redis(redis.url);
    const connection = await connect({ servers: nats.url.replace("nats://", "") });
    const monitor = new ServerMonitor(client, await client.monitor(), connection);
    await connection.flush();
    return monitor;
  }

  /** Resolves after a message on a matching subject. */
  seen(match: RegExp): Promise<void> {
    if ([...this.subjects].some((subject) => match.test(subject))) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ match, resolve }));
  }

  /** The current keys and streams of the servers. */
  async contents(): Promise<{ readonly keys: readonly string[]; readonly streams: readonly string[] }> {
    const manager = await jetstreamManager(this.#nats);
    const streams: string[] = [];
    for await (const name of manager.streams.names()) streams.push(name);
    return { keys: (await this.#redis.keys("*")).sort(), streams: streams.sort() };
  }

  /** Adds a foreign key and stream, which the lab must not touch. */
  async addForeignData(): Promise<void> {
    await this.#redis.set("cordum:theirs", "1");
    const manager = await jetstreamManager(this.#nats);
    await manager.streams.add({ name: "CORDUM_SYS", subjects: ["sys.job.result"] });
  }

  async close(): Promise<void> {
    this.#monitor.disconnect();
    this.#redis.disconnect();
    await this.#nats.close();
  }
}

/** Runs the lab on new servers, and checks that it only used keys of its own and removed them. */
export async function onServers(
  work: (targetArgs: readonly string[], monitor: ServerMonitor) => Promise<void>,
): Promise<void> {
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  const monitor = await ServerMonitor.open(nats, redis);
  try {
    await monitor.addForeignData();
    await work(["--nats", nats.url, "--redis", redis.url, "--processes", "3"], monitor);
    expect([...monitor.keys].filter((key) => !/^cordum-lab-\w+-\d:/.test(key))).toEqual(["cordum:theirs"]);
    expect(await monitor.contents()).toEqual({ keys: ["cordum:theirs"], streams: ["CORDUM_SYS"] });
  } finally {
    await monitor.close();
    await Promise.all([nats.stop(), redis.stop()]);
  }
}

/** Without the inboxes: a subscription to them would hide from the broker that a requester is gone. */
const SUBJECTS = ["sys.>", "job.>", "worker.>", "*.sys.>", "*.job.>", "*.worker.>"];

/** The keys of the commands that a control plane uses. The first key of a script is the key prefix. */
function keysIn(command: string, args: readonly string[]): readonly string[] {
  switch (command) {
    case "evalsha":
    case "eval":
      return args.slice(2, 3);
    case "mget":
    case "unlink":
    case "del":
      return args;
    case "set":
    case "get":
    case "subscribe":
    case "publish":
      return args.slice(0, 1);
    default:
      return [];
  }
}

function childrenOf(pid: number): readonly number[] {
  const tasks = `/proc/${pid}/task`;
  return readdirSync(tasks)
    .flatMap((task) => readFileSync(`${tasks}/${task}/children`, "utf8").trim().split(" "))
    .filter((text) => text !== "")
    .map(Number);
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
