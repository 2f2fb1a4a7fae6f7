/** The workflow of examples/ticket-triage with one process for each role and worker. Each process can be killed. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { http, nats as overNats, type Transport } from "../../../src/worlds/worker-sdk.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { type Answer, Api } from "../api.ts";
import { bundle } from "../bundle.ts";
import { PythonProcess, requirePython } from "../clients/python-process.ts";
import { makeKeys, Service } from "../deployments.ts";
import { LineProcess } from "../line-process.ts";
import { Program } from "../program.ts";
import { SHORT_WAITS } from "./kill-workflow.ts";

const EXAMPLE = join(import.meta.dirname, "..", "..", "..", "examples", "ticket-triage");

export interface TriageDeployment {
  /** Starts runs. Its requests wait for processes that restart. */
  readonly submitter: Api;
  readonly approver: Api;
  readonly operator: Api;
  readonly agent: ExampleWorker;
  readonly services: ExampleWorker;
  /** For a worker of the test. */
  readonly transport: Transport;
  /** Kills the process with SIGKILL and starts it again. */
  readonly crash: Readonly<Record<string, () => Promise<void>>>;
  stop(): Promise<void>;
}

/** A worker of the example as a process. */
export class ExampleWorker {
  readonly #start: () => LineProcess;
  #running: LineProcess;

  constructor(start: () => LineProcess) {
    this.#start = start;
    this.#running = start();
  }

  /** Waits until the worker prints a line that starts with the text. */
  printed(text: string): Promise<string> {
    return this.#running.printed(text);
  }

  async crash(): Promise<void> {
    await this.stop();
    this.#running = this.#start();
  }

  async stop(): Promise<void> {
    await this.#running.stop("SIGKILL");
  }
}

/** `rules` are added to the policy of the example. */
export async function startEmbeddedTriage(rules: string): Promise<TriageDeployment> {
  const { dir, program, servicesFile, policy, env } = await prepare(rules);
  const argv = ["--data", join(dir, "data"), "--policy", policy, "--workflows", "examples/workflows"];
  const plane = new Service((port) => program.up([...argv, "--port", String(port)], env));
  const restarts = new Restarts();
  const { root, keys } = await makeKeys(await plane.start());
  const as = (key: string) => new SteadyApi(root.url, { "x-api-key": key }, restarts);
  const agent = startAgent(root.url, keys.worker);
  const services = startServices(servicesFile, { CORDUM_URL: root.url, CORDUM_API_KEY: keys.worker });
  return {
    submitter: as(keys.submitter),
    approver: as(keys.alice),
    operator: as(keys.root),
    agent,
    services,
    transport: http({ url: root.url, apiKey: keys.worker }),
    crash: {
      control: () => restarts.track(plane.crash()),
      agent: () => agent.crash(),
      services: () => services.crash(),
    },
    async stop() {
      await Promise.all([agent.stop(), services.stop()]);
      await program.stop();
      rmSync(dirname(servicesFile), { recursive: true, force: true });
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function startClusterTriage(rules: string): Promise<TriageDeployment> {
  const [{ dir, program, servicesFile, policy, env }, nats, redis] = await Promise.all([
    prepare(rules),
    startNats(),
    startRedis({ appendonly: true, appendfsync: "everysec" }),
  ]);
  const servers = ["--nats", nats.url, "--redis", redis.url];
  const workflows = ["--workflows", "examples/workflows"];
  const service = (...argv: string[]) => new Service((port) => program.up([...argv, "--port", String(port)], env));
  const kernel = service(...servers, "--role", "safety", "--policy", policy);
  const safety = ["--safety", await kernel.start()];
  const gateway = service(...servers, "--role", "gateway", ...safety, ...workflows);
  const controls = [1, 2].map(() => service(...servers, "--role", "control", ...safety, ...workflows));
  const [url = ""] = await Promise.all([gateway, ...controls].map((each) => each.start()));
  const restarts = new Restarts();
  const { root, keys } = await makeKeys(url);
  const as = (key: string) => new SteadyApi(root.url, { "x-api-key": key }, restarts);
  const agent = startAgent(url, keys.worker);
  const services = startServices(servicesFile, { NATS_URL: nats.url, REDIS_URL: redis.url });
  return {
    submitter: as(keys.submitter),
    approver: as(keys.alice),
    operator: as(keys.root),
    agent,
    services,
    transport: overNats({ nats: nats.url, redis: redis.url }),
    crash: {
      gateway: () => restarts.track(gateway.crash()),
      // One after the other, so that the next one takes over.
      control: async () => {
        const victim = controls.shift() as Service;
        controls.push(victim);
        await restarts.track(victim.crash());
      },
      kernel: () => restarts.track(kernel.crash()),
      agent: () => agent.crash(),
      services: () => services.crash(),
    },
    async stop() {
      await Promise.all([agent.stop(), services.stop()]);
      await program.stop();
      rmSync(dirname(servicesFile), { recursive: true, force: true });
      await Promise.all([nats.stop(), redis.stop()]);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function prepare(rules: string) {
  requirePython();
  const dir = mkdtempSync(join(tmpdir(), "cordum-triage-"));
  const policy = join(dir, "policy.yaml");
  writeFileSync(policy, `${readFileSync(join(EXAMPLE, "policy.yaml"), "utf8")}${rules}`);
  const [program, servicesFile] = await Promise.all([Program.build(), bundle(join(EXAMPLE, "services.ts"))]);
  const env = { ...SHORT_WAITS, CORDUM_RETRY_SAFETY_UNAVAILABLE_POLICY: "full:100ms:1s" };
  return { dir, policy, program, servicesFile, env };
}

const startAgent = (url: string, key: string) =>
  new ExampleWorker(() => new PythonProcess([join(EXAMPLE, "agent.py")], { CORDUM_URL: url, CORDUM_API_KEY: key }));

const startServices = (file: string, env: Readonly<Record<string, string>>) =>
  new ExampleWorker(() => new LineProcess({ command: process.execPath, argv: [file], env }));

/** The restarts in progress. */
class Restarts {
  #current: Promise<void> = Promise.resolve();

  get ended(): Promise<void> {
    return this.#current;
  }

  track(restart: Promise<void>): Promise<void> {
    this.#current = restart;
    return restart;
  }
}

/** Sends a request again when it fails or meets a 503: after the restart in progress, if there is one. */
class SteadyApi extends Api {
  readonly #restarts: Restarts;

  constructor(url: string, headers: Readonly<Record<string, string>>, restarts: Restarts) {
    super(url, headers);
    this.#restarts = restarts;
  }

  override get(path: string): Promise<Answer> {
    return this.#steady(() => super.get(path));
  }

  override post(path: string, body?: unknown): Promise<Answer> {
    return this.#steady(() => super.post(path, body));
  }

  async #steady(send: () => Promise<Answer>): Promise<Answer> {
    for (;;) {
      const answer = await send().catch(() => null);
      if (answer !== null && answer.status < 500) return answer;
      await this.#restarts.ended;
      await delay(RETRY_MS);
    }
  }
}

const RETRY_MS = 20;
