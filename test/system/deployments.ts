/** The two deployments of the control plane as real processes: one embedded process, and a cluster. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AUDIT_PAGES, pageId } from "../../src/core/model/audit.ts";
import { put, type Store } from "../../src/ports/store.ts";
import { counting } from "../../src/sim/adapters/counting.ts";
import { openCluster } from "../../src/worlds/cluster.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";
import { http, nats as overNats, type Transport } from "../../src/worlds/worker-sdk.ts";
import type { UpProcess } from "../cli/run.ts";
import { freePort } from "../servers/ports.ts";
import { startNats, startRedis } from "../servers/start.ts";
import { Api } from "./api.ts";
import { Program } from "./program.ts";
import { WorkerPool } from "./workers/worker-pool.ts";

export interface Deployment {
  /** Two gateways with an admin key; the embedded deployment has the same one twice. */
  readonly apis: readonly [Api, Api];
  readonly keys: Keys;
  readonly workers: WorkerPool;
  /** Prefixes of served topics: see `WorkerPool` and `cordum up --demo`. */
  readonly prefixes: readonly string[];
  readonly transports: Readonly<Record<string, Transport>>;
  /** An API whose safety kernel can be stopped. */
  isolateKernel(): Promise<KernelOutage>;
  /** Restarts the processes one after another with SIGTERM, and returns the exit codes. */
  restartAll(): Promise<readonly number[]>;
  /** Kills the process, in a cluster each control process, with SIGKILL, and starts it again. */
  killControl(): Promise<void>;
  /** Changes an audit entry of the tenant `default` directly in the store. */
  tamper(): Promise<void>;
  stop(): Promise<void>;
}

export interface KernelOutage {
  readonly api: Api;
  /** The prefix of its topics. */
  readonly prefix: string;
  /** Stops the kernel process; its connections stay open. */
  begin(): void;
  end(): void;
}

export interface Keys {
  readonly root: string;
  readonly submitter: string;
  readonly alice: string;
  readonly bob: string;
  readonly worker: string;
  /** An administrator of another tenant. */
  readonly foreign: string;
}

export const POLICY = `version: governed
default_decision: deny
rules:
  - {id: no-exports, match: {topics: ['*.forbidden']}, decision: deny, reason: exports are forbidden here}
  - {id: ask-a-human, match: {topics: ['*.ask']}, decision: require_approval, reason: a human looks at these first}
  - {id: fine, match: {topics: ['*.*']}, decision: allow, reason: nothing is wrong with it}
`;

/** Short waits, except for `no_worker`, which only the arrival of a worker must end. */
const SHORT_WAITS = {
  CORDUM_DISPATCH_DEADLINE_MS: "3000",
  CORDUM_SWEEP_EVERY_MS: "200",
  CORDUM_SAFETY_TIMEOUT_MS: "400",
  CORDUM_SAFETY_BREAKER_OPEN_MS: "300",
  CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: "full:100ms:1s",
  CORDUM_RETRY_NO_WORKER_POLICY: "fixed:10m",
  CORDUM_LOG_LEVEL: "warn",
};

/** A process that can be restarted on the same port. */
export class Service {
  readonly #start: (port: number) => UpProcess;
  #port: number | null = null;
  #running: UpProcess | null = null;

  constructor(start: (port: number) => UpProcess) {
    this.#start = start;
  }

  /** Keeps its port after the first start; until then a taken port is replaced. */
  async start(): Promise<string> {
    for (let tries = 1; ; tries++) {
      const port: number = this.#port ?? (await freePort());
      this.#running = this.#start(port);
      try {
        const url = await this.#running.url;
        this.#port = port;
        return url;
      } catch (error) {
        if (this.#port !== null || tries === START_TRIES_MAX || !String(error).includes("is taken")) throw error;
      }
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.#running?.child.kill(signal);
  }

  async crash(): Promise<void> {
    this.kill("SIGKILL");
    await this.#running?.ended;
    await this.start();
  }

  /** Returns the exit code. */
  async stop(): Promise<number> {
    this.kill("SIGTERM");
    const ran = await this.#running?.ended;
    if (ran === undefined) return 0;
    if (ran.exitCode !== 0) throw new Error(`exited with ${ran.exitCode}: ${ran.err}`);
    return ran.exitCode;
  }
}

export async function startEmbedded(): Promise<Deployment> {
  const program = await Program.build();
  const dir = mkdtempSync(join(tmpdir(), "cordum-governance-"));
  const policy = policyFile(dir);
  const data = join(dir, "data");
  const argv = ["--demo", "--data", data, "--policy", policy];
  const service = new Service((port) => program.up([...argv, "--port", String(port)], SHORT_WAITS));
  const { root, keys } = await makeKeys(await service.start());
  const workers = new WorkerPool();
  const transports = { http: http({ url: root.url, apiKey: keys.worker }) };
  await workers.start("http", transports.http);
  return {
    apis: [root, root],
    keys,
    workers,
    prefixes: ["http", "demo"],
    transports,
    isolateKernel: () => separateKernelOutage(program, dir, policy, workers),
    restartAll: async () => [await restart(service)],
    killControl: () => service.crash(),
    async tamper() {
      await service.stop();
      const { world, close } = await openEmbedded({ ...worldOptions(), dir: data });
      await tamperWithAudit(world.store);
      await close();
      await service.start();
    },
    async stop() {
      await workers.stop();
      await program.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

const START_TRIES_MAX = 3;

/** The embedded kernel cannot be stopped alone, so the outage uses a second deployment with a separate kernel. */
async function separateKernelOutage(
  program: Program,
  dir: string,
  policy: string,
  workers: WorkerPool,
): Promise<KernelOutage> {
  const kernel = program.up(["--role", "safety", "--port", "0", "--policy", policy], SHORT_WAITS);
  const argv = ["--data", join(dir, "separate"), "--port", "0", "--safety", await kernel.url];
  const api = new Api(await program.up(argv, SHORT_WAITS).url);
  await workers.start("separate", http({ url: api.url, ...api.apiKey }));
  return {
    api,
    prefix: "separate",
    begin: () => void kernel.child.kill("SIGSTOP"),
    end: () => void kernel.child.kill("SIGCONT"),
  };
}

export async function startCluster(): Promise<Deployment> {
  const [program, nats, redis] = await Promise.all([
    Program.build(),
    startNats(),
    startRedis({ appendonly: true, appendfsync: "everysec" }),
  ]);
  const dir = mkdtempSync(join(tmpdir(), "cordum-governance-"));
  const servers = ["--nats", nats.url, "--redis", redis.url];
  const service = (...argv: string[]) =>
    new Service((port) => program.up([...servers, "--port", String(port), ...argv], SHORT_WAITS));
  const kernel = service("--role", "safety", "--policy", policyFile(dir));
  const safety = ["--safety", await kernel.start()];
  const gateways = [1, 2].map(() => service("--role", "gateway", ...safety));
  const controls = [1, 2, 3].map(() => service("--role", "control", ...safety));
  const [one = "", two = ""] = await Promise.all([...gateways, ...controls].map((each) => each.start()));
  const { root, keys } = await makeKeys(one);
  const workers = new WorkerPool();
  const transports = {
    nats: overNats({ nats: nats.url, redis: redis.url }),
    http: http({ url: two, apiKey: keys.worker }),
  };
  for (const [name, transport] of Object.entries(transports)) await workers.start(name, transport);
  const apis = [root, new Api(two).as(keys.root)] as const;
  return {
    apis,
    keys,
    workers,
    prefixes: ["nats", "http"],
    transports,
    isolateKernel: async () => ({
      api: apis[1],
      prefix: "nats",
      begin: () => kernel.kill("SIGSTOP"),
      end: () => kernel.kill("SIGCONT"),
    }),
    async restartAll() {
      const codes: number[] = [];
      for (const each of [kernel, ...gateways, ...controls]) codes.push(await restart(each));
      return codes;
    },
    killControl: async () => {
      await Promise.all(controls.map((each) => each.crash()));
    },
    async tamper() {
      const { world, close } = await openCluster({ ...worldOptions(), nats: nats.url, redis: redis.url });
      await tamperWithAudit(world.store);
      await close();
    },
    async stop() {
      await workers.stop();
      await program.stop();
      await Promise.all([nats.stop(), redis.stop()]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function restart(service: Service): Promise<number> {
  const exitCode = await service.stop();
  await service.start();
  return exitCode;
}

function policyFile(dir: string): string {
  const file = join(dir, "policy.yaml");
  writeFileSync(file, POLICY);
  return file;
}

export async function makeKeys(url: string): Promise<{ readonly root: Api; readonly keys: Keys }> {
  const make = async (api: Api, request: object): Promise<string> => {
    const { status, body } = await api.post("/keys", request);
    if (status !== 200) throw new Error(`creating the key failed with ${status}: ${JSON.stringify(body)}`);
    return body.key;
  };
  const first = await make(new Api(url), { tenant: "*", role: "admin", name: "root" });
  const root = new Api(url).as(first);
  const of = (role: string, tenant = "default") => make(root, { tenant, role });
  const keys = {
    root: first,
    submitter: await of("submitter"),
    alice: await of("operator"),
    bob: await of("operator"),
    worker: await of("worker"),
    foreign: await of("admin", "other"),
  };
  return { root, keys };
}

async function tamperWithAudit(store: Store): Promise<void> {
  const page = await store.load(AUDIT_PAGES, pageId("default", 0));
  if (page === null) throw new Error("the audit log is empty");
  const entries = page.value.entries.map((entry) => (entry.index === 3 ? { ...entry, who: "tampered" } : entry));
  const puts = [put(AUDIT_PAGES, page.id, page, { ...page.value, entries })];
  const change = { org: "default", atMs: Date.now(), puts, guards: [], sends: [], watch: [] };
  const committed = await store.commit(change);
  if (committed.kind !== "committed") throw new Error(`changing the log failed: ${committed.kind}`);
}

const worldOptions = () => ({
  ...counting(),
  name: "tamper",
  safety: { local: null, check: () => Promise.reject(new Error("not used")) },
  bus: { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1 },
});
