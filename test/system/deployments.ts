/**
 * The two ways in which the control plane is run, as real processes: one that is everything, and a cluster of parts. What
 * the tests of a governed system ask of either is the same.
 */
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
import { BenchWorkers } from "./workers/worker-pool.ts";

export interface Setup {
  /** Two ways in for the same caller, a key of everything; the same way twice where there is only one. */
  readonly doors: readonly [Api, Api];
  readonly keys: Keys;
  readonly workers: BenchWorkers;
  /** First words of topics that somebody serves: see `BenchWorkers`, and `cordum up --demo`. */
  readonly prefixes: readonly string[];
  readonly transports: Readonly<Record<string, Transport>>;
  /** A way in behind which the safety kernel is a process of its own. */
  outage(): Promise<Outage>;
  /** Ends each process as an operator does, one after the other, and starts another one in its place. */
  restartAll(): Promise<readonly number[]>;
  /** Changes the audit log of the tenant `default` behind the back of the control plane. */
  tamper(): Promise<void>;
  stop(): Promise<void>;
}

export interface Outage {
  readonly door: Api;
  /** First word of its topics. */
  readonly prefix: string;
  /** The kernel does not answer any more; its connections stay open. */
  begin(): void;
  end(): void;
}

export interface Keys {
  readonly root: string;
  readonly submitter: string;
  readonly alice: string;
  readonly bob: string;
  readonly worker: string;
  /** An administrator, of another tenant. */
  readonly foreign: string;
}

export const POLICY = `version: governed
default_decision: deny
rules:
  - {id: no-exports, match: {topics: ['*.forbidden']}, decision: deny, reason: exports are forbidden here}
  - {id: ask-a-human, match: {topics: ['*.ask']}, decision: require_approval, reason: a human looks at these first}
  - {id: fine, match: {topics: ['*.*']}, decision: allow, reason: nothing is wrong with it}
`;

/** Waits that are short enough to be sat out; but for one that nothing but a worker's coming must end. */
const HURRY = {
  CORDUM_DISPATCH_DEADLINE_MS: "3000",
  CORDUM_SWEEP_EVERY_MS: "200",
  CORDUM_SAFETY_TIMEOUT_MS: "400",
  CORDUM_SAFETY_BREAKER_OPEN_MS: "300",
  CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: "full:100ms:1s",
  CORDUM_RETRY_NO_WORKER_POLICY: "fixed:10m",
  CORDUM_LOG_LEVEL: "warn",
};

/** A process that can be started again where it was. */
class Part {
  readonly #start: (port: number) => UpProcess;
  #port: number | null = null;
  #running: UpProcess | null = null;

  constructor(start: (port: number) => UpProcess) {
    this.#start = start;
  }

  /** On its own port, ever again; the first time another one is taken where somebody else was faster. */
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

  /** Its exit code. */
  async stop(): Promise<number> {
    this.kill("SIGTERM");
    const ran = await this.#running?.ended;
    if (ran === undefined) return 0;
    if (ran.exitCode !== 0) throw new Error(`it ended with ${ran.exitCode}: ${ran.err}`);
    return ran.exitCode;
  }
}

export async function embeddedSetup(): Promise<Setup> {
  const program = await Program.build();
  const dir = mkdtempSync(join(tmpdir(), "cordum-governed-"));
  const policy = policyFile(dir);
  const data = join(dir, "data");
  const argv = ["--demo", "--data", data, "--policy", policy];
  const part = new Part((port) => program.up([...argv, "--port", String(port)], HURRY));
  const { root, keys } = await makeKeys(await part.start());
  const workers = new BenchWorkers();
  const transports = { http: http({ url: root.url, apiKey: keys.worker }) };
  await workers.start("http", transports.http);
  const aside = new AsideOutage(program, dir, policy, workers);
  return {
    doors: [root, root],
    keys,
    workers,
    prefixes: ["http", "demo"],
    transports,
    outage: () => aside.open(),
    restartAll: async () => [await restart(part)],
    async tamper() {
      await part.stop();
      const { world, close } = await openEmbedded({ ...NO_WORLD(), dir: data });
      await changeAudit(world.store);
      await close();
      await part.start();
    },
    async stop() {
      await workers.stop();
      await program.remove();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

const START_TRIES_MAX = 3;

/** The kernel of the embedded setup is inside: for an outage there is another pair, with the kernel outside. */
class AsideOutage {
  readonly #program: Program;
  readonly #dir: string;
  readonly #policy: string;
  readonly #workers: BenchWorkers;

  constructor(program: Program, dir: string, policy: string, workers: BenchWorkers) {
    this.#program = program;
    this.#dir = dir;
    this.#policy = policy;
    this.#workers = workers;
  }

  async open(): Promise<Outage> {
    const kernel = this.#program.up(["--role", "safety", "--port", "0", "--policy", this.#policy], HURRY);
    const argv = ["--data", join(this.#dir, "aside"), "--port", "0", "--safety", await kernel.url];
    const door = new Api(await this.#program.up(argv, HURRY).url);
    await this.#workers.start("aside", http({ url: door.url }));
    return {
      door,
      prefix: "aside",
      begin: () => void kernel.child.kill("SIGSTOP"),
      end: () => void kernel.child.kill("SIGCONT"),
    };
  }
}

export async function clusterSetup(): Promise<Setup> {
  const [program, nats, redis] = await Promise.all([
    Program.build(),
    startNats(),
    startRedis({ appendonly: true, appendfsync: "everysec" }),
  ]);
  const dir = mkdtempSync(join(tmpdir(), "cordum-governed-"));
  const servers = ["--nats", nats.url, "--redis", redis.url];
  const part = (...argv: string[]) =>
    new Part((port) => program.up([...servers, "--port", String(port), ...argv], HURRY));
  const kernel = part("--role", "safety", "--policy", policyFile(dir));
  const safety = ["--safety", await kernel.start()];
  const gateways = [1, 2].map(() => part("--role", "gateway", ...safety));
  const controls = [1, 2, 3].map(() => part("--role", "control", ...safety));
  const [one = "", two = ""] = await Promise.all([...gateways, ...controls].map((each) => each.start()));
  const { root, keys } = await makeKeys(one);
  const workers = new BenchWorkers();
  const transports = {
    nats: overNats({ nats: nats.url, redis: redis.url }),
    http: http({ url: two, apiKey: keys.worker }),
  };
  for (const [name, transport] of Object.entries(transports)) await workers.start(name, transport);
  const doors = [root, new Api(two).as(keys.root)] as const;
  return {
    doors,
    keys,
    workers,
    prefixes: ["nats", "http"],
    transports,
    outage: async () => ({
      door: doors[1],
      prefix: "nats",
      begin: () => kernel.kill("SIGSTOP"),
      end: () => kernel.kill("SIGCONT"),
    }),
    async restartAll() {
      const codes: number[] = [];
      for (const each of [kernel, ...gateways, ...controls]) codes.push(await restart(each));
      return codes;
    },
    async tamper() {
      const { world, close } = await openCluster({ ...NO_WORLD(), nats: nats.url, redis: redis.url });
      await changeAudit(world.store);
      await close();
    },
    async stop() {
      await workers.stop();
      await program.remove();
      await Promise.all([nats.stop(), redis.stop()]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function restart(part: Part): Promise<number> {
  const exitCode = await part.stop();
  await part.start();
  return exitCode;
}

function policyFile(dir: string): string {
  const file = join(dir, "policy.yaml");
  writeFileSync(file, POLICY);
  return file;
}

async function makeKeys(url: string): Promise<{ readonly root: Api; readonly keys: Keys }> {
  const make = async (api: Api, request: object): Promise<string> => {
    const { status, body } = await api.post("/keys", request);
    if (status !== 200) throw new Error(`no key: ${JSON.stringify(body)}`);
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

async function changeAudit(store: Store): Promise<void> {
  const page = await store.load(AUDIT_PAGES, pageId("default", 0));
  if (page === null) throw new Error("there is no audit log");
  const entries = page.value.entries.map((entry) => (entry.index === 3 ? { ...entry, who: "nobody" } : entry));
  const puts = [put(AUDIT_PAGES, page.id, page, { ...page.value, entries })];
  const change = { org: "default", atMs: Date.now(), puts, guards: [], sends: [], watch: [] };
  const committed = await store.commit(change);
  if (committed.kind !== "committed") throw new Error(`the log was not changed: ${committed.kind}`);
}

const NO_WORLD = () => ({
  ...counting(),
  name: "tamper",
  safety: { local: null, check: () => Promise.reject(new Error("nobody asks")) },
  bus: { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 1 },
});
