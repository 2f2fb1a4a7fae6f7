/** An outage of the safety kernel under load, with real processes and gRPC, and a report of the jobs. */
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
import { Api, FINAL_STATES } from "../api.ts";
import { ArrivalRecorder } from "../arrival-recorder.ts";
import { type Spread, spreadOf } from "../arrival-spread.ts";
import { bundle } from "../bundle.ts";
import { Program } from "../program.ts";

export interface OutageOptions {
  readonly jobs: number;
  readonly outageMs: number;
  /** The duration after the restart in which checks are counted. */
  readonly windowMs: number;
  readonly controls: number;
  /** Settings of the control plane that differ from the defaults. */
  readonly env?: Readonly<Record<string, string>>;
  /** The duration of a fail-open lease from the start of the outage; half of the jobs are submitted after its end. */
  readonly leaseMs?: number;
  readonly log?: (line: string) => void;
}

export interface OutageReport {
  readonly jobs: number;
  /** The number of jobs that a worker got during the outage. */
  readonly duringOutage: number;
  /** Those of them without the bypass labels on the job or on the worker's item. */
  readonly unmarked: readonly string[];
  /** Jobs submitted after the end of the lease that a worker got during the outage. */
  readonly afterLease: readonly string[];
  /** Acknowledged jobs that did not succeed. */
  readonly lost: readonly string[];
  readonly twice: readonly string[];
  /** The spread of the checks after the restart of the kernel. */
  readonly spread: Spread;
  /** CPU time stolen by the hypervisor in this window, which makes arrivals bursty. */
  readonly stolenMs: number;
}

export async function outage(options: OutageOptions): Promise<OutageReport> {
  const [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const [program, script, port] = await Promise.all([Program.build(), bundle("kernel-process.ts"), freePort()]);
  const kernel = new ArrivalRecorder([script, String(port)]);
  try {
    await kernel.start();
    const api = await startParts(program, { nats, redis, options }, `127.0.0.1:${port}`);
    return await new Experiment({ nats, redis, kernel, api, options }).run();
  } finally {
    await kernel.kill();
    await program.stop();
    rmSync(dirname(script), { recursive: true, force: true });
    await Promise.all([nats.stop(), redis.stop()]);
  }
}

interface Environment {
  readonly nats: RunningServer;
  readonly redis: RunningServer;
  readonly kernel: ArrivalRecorder;
  readonly api: Api;
  readonly options: OutageOptions;
}

type Servers = Pick<Environment, "nats" | "redis" | "options">;

async function startParts(program: Program, { nats, redis, options }: Servers, kernel: string): Promise<Api> {
  const env = { CORDUM_LOG_LEVEL: "error", CORDUM_HTTP_RATE_PER_S: "100000", ...options.env };
  const argv = ["--nats", nats.url, "--redis", redis.url, "--port", "0", "--safety", kernel];
  const roles = ["gateway", ...Array.from({ length: options.controls }, () => "control")];
  const started = roles.map((role) => program.up([...argv, "--role", role], env));
  const [url = ""] = await Promise.all(started.map((part) => part.url));
  return new Api(url);
}

class Experiment {
  readonly #environment: Environment;
  /** The jobs the worker got, and whether they had the bypass label. */
  readonly #got = new Map<string, boolean>();
  readonly #twice: string[] = [];
  #waiting: (() => void)[] = [];

  constructor(environment: Environment) {
    this.#environment = environment;
  }

  async run(): Promise<OutageReport> {
    const { nats, redis, kernel, options, api } = this.#environment;
    const log = options.log ?? (() => undefined);
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
      const killedMs = Date.now();
      log(`  kernel killed; submitting ${options.jobs} jobs`);
      const before = await this.#submit(options.leaseMs === undefined ? options.jobs : Math.ceil(options.jobs / 2));
      const after = options.leaseMs === undefined ? [] : await this.#underLease(before);
      await until(killedMs + options.outageMs);
      const early = [...this.#got.keys()].filter((id) => id !== first);
      const stolenMs = stolenSoFarMs();
      await kernel.start();
      log("  kernel restarted");
      const ids = [...before, ...after];
      await this.#allGot(ids);
      const states = await this.#ends(ids);
      await until((kernel.times[0] ?? 0) + options.windowMs);
      const marked = new Map(await Promise.all(early.map(async (id) => [id, await isMarked(api, id)] as const)));
      return {
        jobs: ids.length,
        duringOutage: early.length,
        unmarked: early.filter((id) => this.#got.get(id) !== true || marked.get(id) !== true),
        afterLease: early.filter((id) => after.includes(id)),
        lost: ids.filter((_, at) => states[at] !== "SUCCEEDED"),
        twice: this.#twice,
        // The first check is the breaker's probe.
        spread: spreadOf(kernel.times.slice(1), options.windowMs),
        stolenMs: stolenSoFarMs() - stolenMs,
      };
    } finally {
      await stop();
    }
  }

  /** Waits until the first jobs are dispatched under a lease and the lease has ended, then submits the rest. */
  async #underLease(before: readonly string[]): Promise<readonly string[]> {
    const { nats, redis, options, api } = this.#environment;
    const { world, close } = await openCluster({
      ...counting(),
      name: "operator",
      safety: { local: null, check: () => Promise.reject(new Error("not used")) },
      bus: { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1 },
      nats: nats.url,
      redis: redis.url,
    });
    const engine = openEngine(world, { current: defaultSettings() });
    const request = { scope: "default", reason: "the kernel was killed", by: "operator", forMs: options.leaseMs ?? 0 };
    const opened = await openFailOpen(engine, request);
    if (opened.kind !== "opened") throw new Error(`the lease was not opened: ${opened.kind}`);
    await this.#allGot(before);
    await api.until("/failopen", ({ body }) => body.items[0].state !== "in_force");
    await close();
    return this.#submit(options.jobs - before.length);
  }

  async #submit(count: number): Promise<readonly string[]> {
    const ids: string[] = [];
    let rest = count;
    const client = async () => {
      while (rest-- > 0) ids.push(await this.#environment.api.submit("load.work", ids.length));
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    return ids;
  }

  /** Polls with a few clients, to avoid thousands of connections. */
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
    const { body } = await this.#environment.api.until(`/jobs/${id}`, (answer) =>
      FINAL_STATES.includes(answer.body.state),
    );
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

async function isMarked(api: Api, id: string): Promise<boolean> {
  const { labels, bypass, safety } = await api.job(id);
  return labels.safety_bypassed === "true" && bypass !== null && safety.bypassed === true;
}

/** The stolen CPU time since boot, from the eighth field of `/proc/stat` (in 10 ms); 0 on other systems than Linux. */
function stolenSoFarMs(): number {
  if (!existsSync("/proc/stat")) return 0;
  const [, ...figures] = (readFileSync("/proc/stat", "utf8").split("\n")[0] ?? "").trim().split(/\s+/);
  return Number(figures[7] ?? 0) * 10;
}

function until(atMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - Date.now())));
}

const CLIENTS = 16;
