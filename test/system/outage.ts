/**
 * The safety kernel is killed while jobs wait for it, and comes back: real processes, real gRPC, and what became of the jobs.
 *
 * 1. Closed, which is the default: nothing is worked on meanwhile, everything is afterwards.
 * 2. Under a lease: what is worked on meanwhile carries the mark; what came after the lease had ended waits.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { openFailOpen } from "../../src/flow/fail-open.ts";
import { openFlow } from "../../src/flow/flow.ts";
import { counting } from "../../src/sim/quiet.ts";
import { openCluster } from "../../src/worlds/cluster.ts";
import { nats as overNats, worker } from "../../src/worlds/worker-kit.ts";
import { freePort } from "../servers/ports.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";
import { Api } from "./api.ts";
import { bundle } from "./bundle.ts";
import { Program } from "./program.ts";
import { type Spread, spreadOf } from "./spread.ts";

export interface OutageOptions {
  readonly jobs: number;
  readonly outageMs: number;
  /** How long after the first answer the checks are counted. */
  readonly windowMs: number;
  readonly controls: number;
  /** Settings of the control plane beside its defaults. */
  readonly env?: Readonly<Record<string, string>>;
  /** A lease of so long from the beginning of the outage on; half of the jobs come after its end. */
  readonly leaseMs?: number;
  readonly say?: (line: string) => void;
}

export interface OutageReport {
  readonly jobs: number;
  /** Jobs that a worker got while the kernel was away. */
  readonly meanwhile: number;
  /** Of those, the ones without the mark of a bypass, on the job or in what the worker got. */
  readonly unmarked: readonly string[];
  /** Jobs that came after the lease had ended and that a worker got while the kernel was still away. */
  readonly afterLease: readonly string[];
  /** Acknowledged, and not finished in the end. */
  readonly lost: readonly string[];
  readonly twice: readonly string[];
  readonly spread: Spread;
}

export async function outage(options: OutageOptions): Promise<OutageReport> {
  const [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const [program, script] = await Promise.all([Program.build(), bundle("kernel-process.ts")]);
  const kernel = new Kernel(script, await freePort());
  try {
    await kernel.start();
    const door = await startParts(program, { nats, redis, kernel, options });
    return await new Experiment({ nats, redis, kernel, door, options }).run();
  } finally {
    await kernel.kill();
    await program.remove();
    await Promise.all([nats.stop(), redis.stop()]);
  }
}

interface Bench {
  readonly nats: RunningServer;
  readonly redis: RunningServer;
  readonly kernel: Kernel;
  readonly options: OutageOptions;
}

async function startParts(program: Program, { nats, redis, kernel, options }: Bench): Promise<Api> {
  const env = { CORDUM_LOG_LEVEL: "error", CORDUM_HTTP_RATE_PER_S: "100000", ...options.env };
  const argv = ["--nats", nats.url, "--redis", redis.url, "--port", "0", "--safety", kernel.address];
  const roles = ["gateway", ...Array.from({ length: options.controls }, () => "control")];
  const started = roles.map((role) => program.up([...argv, "--role", role], env));
  const [url = ""] = await Promise.all(started.map((part) => part.url));
  return new Api(url);
}

class Experiment {
  readonly #bench: Bench & { readonly door: Api };
  /** Jobs as the worker got them: whether they carried the mark. */
  readonly #got = new Map<string, boolean>();
  readonly #twice: string[] = [];
  #waiting: (() => void)[] = [];

  constructor(bench: Bench & { readonly door: Api }) {
    this.#bench = bench;
  }

  async run(): Promise<OutageReport> {
    const { nats, redis, kernel, options, door } = this.#bench;
    const say = options.say ?? (() => undefined);
    const stop = await worker({
      id: "w",
      topics: ["load.work"],
      concurrency: 64,
      transport: overNats({ nats: nats.url, redis: redis.url }),
      handle: async ({ jobId, labels }) => this.#work(jobId, labels.safety_bypassed === "true"),
    });
    try {
      const [first = ""] = await this.#submit(1);
      await this.#allGot([first]);
      await kernel.kill();
      const downMs = Date.now();
      say(`  the kernel is gone; ${options.jobs} jobs come`);
      const before = await this.#submit(options.leaseMs === undefined ? options.jobs : Math.ceil(options.jobs / 2));
      const after = options.leaseMs === undefined ? [] : await this.#underLease(before);
      await until(downMs + options.outageMs);
      const meanwhile = [...this.#got.keys()].filter((id) => id !== first);
      await kernel.start();
      say("  the kernel is back");
      const ids = [...before, ...after];
      await this.#allGot(ids);
      const states = await Promise.all(ids.map((id) => this.#end(id)));
      await until((kernel.asked[0] ?? 0) + options.windowMs);
      const marked = new Map(await Promise.all(meanwhile.map(async (id) => [id, await isMarked(door, id)] as const)));
      return {
        jobs: ids.length,
        meanwhile: meanwhile.length,
        unmarked: meanwhile.filter((id) => this.#got.get(id) !== true || marked.get(id) !== true),
        afterLease: meanwhile.filter((id) => after.includes(id)),
        lost: ids.filter((_, at) => states[at] !== "SUCCEEDED"),
        twice: this.#twice,
        // The first one is a probe: the others are counted from the moment on at which they may come.
        spread: spreadOf(kernel.asked.slice(1), options.windowMs),
      };
    } finally {
      await stop();
    }
  }

  /** What came before goes under the lease; then it ends, and as many come again. */
  async #underLease(before: readonly string[]): Promise<readonly string[]> {
    const { nats, redis, options, door } = this.#bench;
    const { world, close } = await openCluster({
      ...counting(),
      name: "operator",
      safety: { local: null, check: () => Promise.reject(new Error("nobody asks")) },
      bus: { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1 },
      nats: nats.url,
      redis: redis.url,
    });
    const { defaultSettings } = await import("../../src/config.ts");
    const flow = openFlow(world, { current: defaultSettings() });
    const wish = { scope: "default", reason: "the kernel was killed", by: "operator", forMs: options.leaseMs ?? 0 };
    const opened = await openFailOpen(flow, wish);
    if (opened.kind !== "opened") throw new Error(`no lease: ${opened.kind}`);
    await this.#allGot(before);
    await door.until("/failopen", ({ body }) => body.items[0].state !== "in_force");
    await close();
    return this.#submit(options.jobs - before.length);
  }

  async #submit(count: number): Promise<readonly string[]> {
    const ids: string[] = [];
    let rest = count;
    const client = async () => {
      while (rest-- > 0) ids.push(await this.#bench.door.submit("load.work", ids.length));
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    return ids;
  }

  async #end(id: string): Promise<string> {
    const { body } = await this.#bench.door.until(`/jobs/${id}`, (answer) => ENDS.includes(answer.body.state));
    return body.state;
  }

  #work(jobId: string, isBypassed: boolean): string {
    if (this.#got.has(jobId)) this.#twice.push(jobId);
    this.#got.set(jobId, isBypassed);
    for (const wake of this.#waiting.splice(0)) wake();
    return "done";
  }

  async #allGot(ids: readonly string[]): Promise<void> {
    for (const id of ids) while (!this.#got.has(id)) await new Promise<void>((wake) => this.#waiting.push(wake));
  }
}

/** The kernel as a process that can be killed and started again on its port. */
class Kernel {
  readonly address: string;
  /** When it was asked, since it was last started. */
  asked: number[] = [];
  readonly #argv: readonly string[];
  #child: ChildProcess | null = null;

  constructor(script: string, port: number) {
    this.address = `127.0.0.1:${port}`;
    this.#argv = [script, String(port)];
  }

  async start(): Promise<void> {
    this.asked = [];
    const child = spawn(process.execPath, this.#argv, { stdio: ["ignore", "pipe", "inherit"] });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      child.once("close", () => reject(new Error("the kernel did not start")));
      createInterface({ input: child.stdout as NonNullable<ChildProcess["stdout"]> }).on("line", (line) => {
        const [word, ...times] = line.split(" ");
        if (word === "ready") resolve();
        else for (const atMs of times) this.asked.push(Number(atMs));
      });
    });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
}

async function isMarked(door: Api, id: string): Promise<boolean> {
  const { labels, bypass, safety } = await door.job(id);
  return labels.safety_bypassed === "true" && bypass !== null && safety.bypassed === true;
}

/** How long the kernel is away is what is tried here: nothing is waited for. */
function until(atMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - Date.now())));
}

const CLIENTS = 16;
const ENDS = ["SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"];
