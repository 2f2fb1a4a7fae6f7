/** `cordum lab … --live` as a process of its own, and a look at the servers that it runs on. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import type { RunningServer } from "../../servers/server.ts";

export interface Ended {
  readonly exitCode: number | null;
  readonly out: string;
  readonly err: string;
}

export class LiveRun {
  readonly #child: ChildProcess;
  /** When it and all who have inherited its stderr are gone: the processes that it started, too. */
  readonly ended: Promise<Ended>;

  constructor(file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#child = spawn(process.execPath, [file, "lab", ...args], {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "";
    let err = "";
    this.#child.stdout?.on("data", (chunk) => {
      out += String(chunk);
    });
    this.#child.stderr?.on("data", (chunk) => {
      err += String(chunk);
    });
    this.ended = once(this.#child, "close").then(([code]) => ({ exitCode: code as number | null, out, err }));
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Waits for something that it does, but not if it ends before. */
  async until(happened: Promise<void>): Promise<void> {
    const tooEarly = this.ended.then(({ out, err }) => {
      throw new Error(`it ended before that: ${out}${err}`);
    });
    await Promise.race([happened, tooEarly]);
  }

  /** The processes that it has started, and that run. */
  members(): readonly number[] {
    return childrenOf(this.#child.pid ?? 0).filter((pid) => commandOf(pid).includes("lab-live-member"));
  }
}

/** Sees every command that comes to Redis and every message of a control plane on NATS, whatever is before it. */
export class Onlooker {
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

  static async open(nats: RunningServer, redis: RunningServer): Promise<Onlooker> {
    const client = new Redis(redis.url);
    const connection = await connect({ servers: nats.url.replace("nats://", "") });
    const onlooker = new Onlooker(client, await client.monitor(), connection);
    await connection.flush();
    return onlooker;
  }

  /** Resolves when a message on such a subject is seen. */
  seen(match: RegExp): Promise<void> {
    if ([...this.subjects].some((subject) => match.test(subject))) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ match, resolve }));
  }

  /** What is on the servers now. */
  async left(): Promise<{ readonly keys: readonly string[]; readonly streams: readonly string[] }> {
    const manager = await jetstreamManager(this.#nats);
    const streams: string[] = [];
    for await (const name of manager.streams.names()) streams.push(name);
    return { keys: (await this.#redis.keys("*")).sort(), streams: streams.sort() };
  }

  /** Something of somebody else's, which has to be there afterwards as well. */
  async leaveOurs(): Promise<void> {
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

/**
 * Not simply everything: whoever listens to the inboxes makes the broker believe that somebody still waits there, and it
 * sends messages to those who have gone.
 */
const SUBJECTS = ["sys.>", "job.>", "worker.>", "*.sys.>", "*.job.>", "*.worker.>"];

/** Keys of the commands that a control plane uses. Scripts get their keys' prefix as their first key. */
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
