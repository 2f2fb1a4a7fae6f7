/** Control planes as real processes with the run lock of the baseline, whose processes are killed and started again. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { http, nats as overNats, type Transport } from "../../../src/worlds/worker-sdk.ts";
import { tokenHeader, type UpProcess } from "../../cli/run.ts";
import { freePort } from "../../servers/ports.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { Api } from "../api.ts";
import type { Backend } from "../backends.ts";
import { TcpProxy } from "../faults/tcp-proxy.ts";
import { Program } from "../program.ts";

export interface RolloutSystem {
  readonly api: Api;
  readonly transport: Transport;
  /** Its results arrive over the bus: those of HTTP workers wait for the run lock in their request. */
  readonly itemTopic: string;
  /** The control plane has a worker for it. */
  readonly hasItemWorker: boolean;
  /** Readable for the embedded deployment only while its process is down. */
  readonly backend: Backend;
  /** Addresses of the processes that apply results. */
  readonly controls: readonly string[];
  /** Pending while the processes are down. */
  readonly isUp: Promise<void>;
  /** `kill -9` of every process. */
  kill(): Promise<void>;
  restart(): Promise<void>;
  /** Stops every process with SIGTERM, and returns the exit codes. */
  stop(): Promise<readonly number[]>;
  /** Releases everything, also after a failure. */
  remove(): Promise<void>;
}

/** Results contend for the run lock, and claims and dispatches of killed processes expire soon. */
const ENVIRONMENT = {
  CORDUM_RUN_LOCK_COALESCE: "false",
  CORDUM_RUN_LOCK_ENGINE_WAIT_MS: "0",
  CORDUM_RETRY_LOCK_BUSY_POLICY: "fixed:500ms",
  CORDUM_RUN_LOCK_TTL_MS: "1000",
  CORDUM_BUS_ACK_WAIT_MS: "2000",
  CORDUM_DISPATCH_DEADLINE_MS: "5000",
  CORDUM_SWEEP_EVERY_MS: "200",
  CORDUM_SWEEP_HORIZON_MS: "200",
  CORDUM_SWEEP_LEASE_MS: "1000",
  CORDUM_SWEEP_OUTBOX_AGE_MS: "300",
  CORDUM_LIMITS_MAX_CONCURRENT_RUNS: "10000",
  CORDUM_LOG_LEVEL: "error",
};

export async function startEmbedded(): Promise<RolloutSystem> {
  const program = await Program.build();
  const dir = mkdtempSync(join(tmpdir(), "cordum-rollout-"));
  const port = String(await freePort());
  const processes = new Processes(() => [program.up(["--demo", "--data", dir, "--port", port], ENVIRONMENT)]);
  const [url = ""] = await processes.start();
  const api = new Api(url);
  return {
    ...processes.operations(),
    api,
    transport: http({ url, ...api.apiKey }),
    itemTopic: "demo.echo",
    hasItemWorker: true,
    backend: { dir },
    get controls() {
      return processes.urls;
    },
    get isUp() {
      return processes.isUp;
    },
    async remove() {
      await program.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export interface ClusterSystem extends RolloutSystem {
  /** Stops the control processes with SIGTERM: they write what they have recorded. The gateway stays. */
  stopControls(): Promise<readonly number[]>;
}

export interface ClusterOptions {
  /** They replace those of the environment above. */
  readonly settings?: Readonly<Record<string, string>>;
  /** By how much each direction of the connections to Redis is slower. */
  readonly redisDelayMs?: number;
}

/** One gateway and three control processes. */
export async function startCluster({ settings = {}, redisDelayMs = 0 }: ClusterOptions = {}): Promise<ClusterSystem> {
  const [program, nats, redis] = await Promise.all([
    Program.build(),
    startNats(),
    startRedis({ appendonly: true, appendfsync: "everysec" }),
  ]);
  const proxy = await TcpProxy.to(redis.port, { delayMs: redisDelayMs });
  const redisUrl = redisDelayMs === 0 ? redis.url : `redis://127.0.0.1:${proxy.port}`;
  const port = String(await freePort());
  const up = (role: string, at: string) =>
    program.up(["--nats", nats.url, "--redis", redisUrl, "--role", role, "--port", at], {
      ...ENVIRONMENT,
      ...settings,
    });
  const processes = new Processes(() => [
    up("gateway", port),
    up("control", "0"),
    up("control", "0"),
    up("control", "0"),
  ]);
  const [url = ""] = await processes.start();
  return {
    ...processes.operations(),
    api: new Api(url),
    transport: overNats({ nats: nats.url, redis: redis.url }),
    itemTopic: "rollout.item",
    hasItemWorker: false,
    backend: { nats: nats.url, redis: redis.url },
    get controls() {
      return processes.urls.slice(1);
    },
    get isUp() {
      return processes.isUp;
    },
    stopControls: () => processes.end("SIGTERM", 1),
    async remove() {
      await program.stop();
      await Promise.all([nats.stop(), redis.stop(), proxy.close()]);
    },
  };
}

class Processes {
  readonly #start: () => readonly UpProcess[];
  #running: readonly UpProcess[] = [];
  #up: () => void = () => {};
  urls: readonly string[] = [];
  isUp: Promise<void> = Promise.resolve();

  constructor(start: () => readonly UpProcess[]) {
    this.#start = start;
  }

  async start(): Promise<readonly string[]> {
    this.#running = this.#start();
    this.urls = await Promise.all(this.#running.map(({ url }) => url));
    this.#up();
    return this.urls;
  }

  operations(): Pick<RolloutSystem, "kill" | "restart" | "stop"> {
    return {
      kill: async () => void (await this.end("SIGKILL")),
      restart: async () => void (await this.start()),
      stop: () => this.end("SIGTERM"),
    };
  }

  /** Ends the processes from this index on. */
  async end(signal: NodeJS.Signals, from = 0): Promise<readonly number[]> {
    this.isUp = new Promise((resolve) => {
      this.#up = resolve;
    });
    const ending = this.#running.slice(from);
    for (const { child } of ending) child.kill(signal);
    const ran = await Promise.all(ending.map(({ ended }) => ended));
    return ran.map(({ exitCode }) => exitCode);
  }
}

/** The samples of one process by name with labels. */
export async function metricsOf(url: string): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(`${url}/metrics`, { headers: tokenHeader(url) })).text();
  const samples = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, name, value] = /^([a-z].*) (\S+)$/.exec(line) ?? [];
    if (name !== undefined) samples.set(name, Number(value));
  }
  return samples;
}
