/**
 * The safety kernel is killed while jobs wait for it, and comes back: real processes, real gRPC, and what became of the jobs.
 *
 * 1. Closed, which is the default: nothing is worked on meanwhile, everything is afterwards.
 * 2. Under a lease: what is worked on meanwhile carries the mark; what came after the lease had ended waits.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { defaultSettings } from "../../../src/config/config.ts";
import { openEngine } from "../../../src/engine/engine.ts";
import { openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import { counting } from "../../../src/sim/adapters/counting.ts";
import { openCluster } from "../../../src/worlds/cluster.ts";
import { nats as overNats, worker } from "../../../src/worlds/worker-sdk.ts";
import { freePort } from "../../servers/ports.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { Api } from "../api.ts";
import { Telling } from "../arrival-recorder.ts";
import { type Spread, spreadOf } from "../arrival-spread.ts";
import { bundle } from "../bundle.ts";
import { Program } from "../program.ts";

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
  /** Of the checks that came to the kernel once it was back. */
  readonly spread: Spread;
  /** How long meanwhile the host let this machine stand still, over all cores: what came then came at once after it. */
  readonly stolenMs: number;
}

export async function outage(options: OutageOptions): Promise<OutageReport> {
  const [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const [program, script, port] = await Promise.all([Program.build(), bundle("kernel-process.ts"), freePort()]);
  const kernel = new Telling([script, String(port)]);
  try {
    await kernel.start();
    const door = await startParts(program, { nats, redis, options }, `127.0.0.1:${port}`);
    return await new Experiment({ nats, redis, kernel, door, options }).run();
  } finally {
    await kernel.kill();
    await program.remove();
    rmSync(dirname(script), { recursive: true, force: true });
    await Promise.all([nats.stop(), redis.stop()]);
  }
}

interface Bench {
  readonly nats: RunningServer;
  readonly redis: RunningServer;
  readonly kernel: Telling;
  readonly door: Api;
  readonly options: OutageOptions;
}

type Servers = Pick<Bench, "nats" | "redis" | "options">;

async function startParts(program: Program, { nats, redis, options }: Servers, kernel: string): Promise<Api> {
  const env = { CORDUM_LOG_LEVEL: "error", CORDUM_HTTP_RATE_PER_S: "100000", ...options.env };
  const argv = ["--nats", nats.url, "--redis", redis.url, "--port", "0", "--safety", kernel];
  const roles = ["gateway", ...Array.from({ length: options.controls }, () => "control")];
  const started = roles.map((role) => program.up([...argv, "--role", role], env));
  const [url = ""] = await Promise.all(started.map((part) => part.url));
  return new Api(url);
}

class Experiment {
  readonly #bench: Bench;
  /** Jobs as the worker got them: whether they carried the mark. */
  readonly #got = new Map<string, boolean>();
  readonly #twice: string[] = [];
  #waiting: (() => void)[] = [];

  constructor(bench: Bench) {
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
      const stolenMs = stolenSoFarMs();
      await kernel.start();
      say("  the kernel is back");
      const ids = [...before, ...after];
      await this.#allGot(ids);
      const states = await this.#ends(ids);
      await until((kernel.times[0] ?? 0) + options.windowMs);
      const marked = new Map(await Promise.all(meanwhile.map(async (id) => [id, await isMarked(door, id)] as const)));
      return {
        jobs: ids.length,
        meanwhile: meanwhile.length,
        unmarked: meanwhile.filter((id) => this.#got.get(id) !== true || marked.get(id) !== true),
        afterLease: meanwhile.filter((id) => after.includes(id)),
        lost: ids.filter((_, at) => states[at] !== "SUCCEEDED"),
        twice: this.#twice,
        // The first one is a probe: the others are counted from the moment on at which they may come.
        spread: spreadOf(kernel.times.slice(1), options.windowMs),
        stolenMs: stolenSoFarMs() - stolenMs,
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
    const engine = openEngine(world, { current: defaultSettings() });
    const request = { scope: "default", reason: "the kernel was killed", by: "operator", forMs: options.leaseMs ?? 0 };
    const opened = await openFailOpen(engine, request);
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

  /** A few at a time: thousands of connections at once are not what is tried here. */
  async #ends(ids: readonly string[]): Promise<readonly string[]> {
    const states: string[] = [];
    let next = 0;
    const client = async () => {
      for (let at = next++; at < ids.length; at = next++) states[at] = await this.#end(ids[at] ?? "");
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    return states;
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

async function isMarked(door: Api, id: string): Promise<boolean> {
  const { labels, bypass, safety } = await door.job(id);
  return labels.safety_bypassed === "true" && bypass !== null && safety.bypassed === true;
}

/** Since the machine was started: the eighth figure of the first line, in hundredths of a second. Elsewhere than on Linux none. */
function stolenSoFarMs(): number {
  if (!existsSync("/proc/stat")) return 0;
  const [, ...figures] = (readFileSync("/proc/stat", "utf8").split("\n")[0] ?? "").trim().split(/\s+/);
  return Number(figures[7] ?? 0) * 10;
}

/** How long the kernel is away is what is tried here: nothing is waited for. */
function until(atMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - Date.now())));
}

const CLIENTS = 16;
const ENDS = ["SUCCEEDED", "FAILED", "DENIED", "CANCELLED", "TIMEOUT"];
