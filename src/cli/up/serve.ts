/**
 * What `cordum up` runs, role by role: everything in one process, or its parts in several.
 *
 * A policy is in force before anything is consumed or taken, and stays followed until the end.
 */
import { hostname } from "node:os";
import { readCallerTrust, readKernelTrust } from "../../adapters/grpc/pem.ts";
import { checkListenHost, isUnencrypted } from "../../adapters/grpc/trust.ts";
import { localSafety } from "../../adapters/node/local-safety.ts";
import { promMetrics } from "../../adapters/node/prom-metrics.ts";
import { type Config, LiveConfig } from "../../config/config.ts";
import { hostOf } from "../../core/model/loopback.ts";
import type { LiveKernel } from "../../core/policy/kernel.ts";
import { startControl } from "../../engine/control.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import { openAtStart, publishFile, releases, watchPolicy, watchSafety } from "../../engine/safety/index.ts";
import { watchWorkers } from "../../engine/workers/index.ts";
import type { Route, ServerInfo, SweeperStatus } from "../../gateway/route.ts";
import { HEALTH_ROUTES } from "../../gateway/routes/health.ts";
import { openGateway, ROUTES } from "../../gateway/server.ts";
import type { Log } from "../../ports/log.ts";
import type { Safety } from "../../ports/safety.ts";
import { startDemoWorker } from "./demo.ts";
import { type LoadedPolicy, publishChanges, putFileInForce } from "./load-policy.ts";
import { type OpenedWorld, openWorld } from "./open-world.ts";
import { Stops } from "./stops.ts";
import { applyAtStart, applyChanges, loadWorkflows } from "./workflow-dir.ts";

export const ROLES = ["all", "gateway", "control", "safety"] as const;
export type ServeRole = (typeof ROLES)[number];

export interface ServeOptions {
  readonly role: ServeRole;
  readonly config: Config;
  readonly policy: LoadedPolicy;
  /** Where to listen; the port depends on the role. */
  readonly port: number;
  readonly version: string;
  readonly demo: boolean;
  readonly log: Log;
  readonly name: string;
}

export interface Running {
  /** `http://…`, or `host:port` of a safety kernel. */
  readonly url: string;
  readonly live: LiveConfig;
  readonly kernel: LiveKernel;
  /** What it is and stands on; null for a safety kernel. */
  readonly about: ServerInfo | null;
  /** Takes nothing new, finishes what is in progress, lets go of everything. */
  stop(): Promise<void>;
}

export async function serve(options: ServeOptions): Promise<Running> {
  const stops = new Stops();
  const live = new LiveConfig(options.config);
  try {
    const served = await SERVED[options.role](options, live, stops);
    return { ...served, live, kernel: options.policy.kernel, stop: () => stops.stop() };
  } catch (error) {
    await stops.stop();
    throw error;
  }
}

/** Names a process to operators: host, pid and boot. */
export function processName(): string {
  return `${hostname()}-${process.pid}-${Date.now().toString(36)}`;
}

type Served = Pick<Running, "url" | "about">;
type Serve = (options: ServeOptions, live: LiveConfig, stops: Stops) => Promise<Served>;

const SERVED: Readonly<Record<ServeRole, Serve>> = {
  all: serveAll,
  gateway: serveGateway,
  control: serveControl,
  safety: serveSafety,
};

async function serveAll(options: ServeOptions, live: LiveConfig, stops: Stops): Promise<Served> {
  const base = await openBase(options, live, stops);
  const control = await startControl(base.engine);
  stops.add(() => control.stop());
  if (options.demo) stops.add(await startDemoWorker(base.engine.world));
  return listen(base, options, stops, control, ROUTES);
}

/** Takes jobs and shows them; what becomes of them is the business of others. */
async function serveGateway(options: ServeOptions, live: LiveConfig, stops: Stops): Promise<Served> {
  const base = await openBase(options, live, stops);
  const { engine } = base;
  engine.events.start();
  stops.add(() => engine.events.stop());
  stops.add(() => engine.tasks.close());
  stops.add(await watchWorkers(engine));
  stops.add(await watchSafety(engine));
  // Nothing is swept here, so there is nothing to be late with.
  return listen(base, options, stops, { sweptMs: () => engine.world.clock.now() }, ROUTES);
}

/** Does what is to be done; over HTTP there is only how it is. */
async function serveControl(options: ServeOptions, live: LiveConfig, stops: Stops): Promise<Served> {
  const base = await openBase(options, live, stops);
  const control = await startControl(base.engine);
  stops.add(() => control.stop());
  if (options.demo) stops.add(await startDemoWorker(base.engine.world));
  return listen(base, options, stops, control, HEALTH_ROUTES);
}

/** The kernel alone, over gRPC: with a cluster it follows what is published there, without one its file. */
async function serveSafety(options: ServeOptions, live: LiveConfig, stops: Stops): Promise<Served> {
  const { config, log, policy } = options;
  const { kernel, file } = policy;
  const { host, natsUrl, safetyTrust } = config.process;
  const { startSafetyServer } = await import("../../adapters/grpc/safety-server.ts");
  // Before anything is opened or published: what may not listen has done nothing.
  const trust = readKernelTrust(safetyTrust);
  checkListenHost(host, trust);
  const engine = natsUrl === null ? null : (await openBase(options, live, stops)).engine;
  if (engine === null && file !== null) {
    const take = (text: string) => putFileInForce(kernel, file.name, text);
    await take(file.text);
    const stopWatching = publishChanges(file, log, take);
    stops.add(async () => stopWatching());
  }
  if (isUnencrypted(host, trust)) {
    const advice =
      "without `safety.tls.cert` questions, verdicts and the token can be read on the way; callers of ours send no token " +
      "like this, so put a proxy that speaks TLS before it, or give it a certificate";
    log.write("warn", "safety_kernel_in_the_clear", { host, advice });
  }
  const snapshots = engine === null ? undefined : () => snapshotsIn(engine);
  const { port } = options;
  const server = await startSafetyServer({ kernel, log, host, port, trust, ...(snapshots && { snapshots }) });
  stops.add(() => server.stop());
  return { url: server.address, about: null };
}

interface Base {
  readonly engine: Engine;
  readonly metrics: ReturnType<typeof promMetrics>;
  readonly facts: OpenedWorld["facts"];
}

/** World and flow under the policy in force; nothing is consumed yet. */
async function openBase(options: ServeOptions, live: LiveConfig, stops: Stops): Promise<Base> {
  const { config, policy, log, name } = options;
  const metrics = promMetrics();
  const safety = await openSafety(options, live, stops);
  const opened = await openWorld(config, live, { name, log, metrics, safety });
  stops.add(opened.close);
  const engine = openEngine(opened.world, live, policy.kernel);
  const { file } = policy;
  if (file !== null) {
    await publishFile(engine, file);
    const stopWatching = publishChanges(file, log, (text) => publishFile(engine, { name: file.name, text }));
    stops.add(async () => stopWatching());
  }
  stops.add(await watchPolicy(engine));
  if (options.role === "safety") return { engine, metrics, facts: opened.facts };
  if (config.process.failMode === "open") await openAtStart(engine);
  await followWorkflows(engine, config.process.workflowsDir, log, stops);
  return { engine, metrics, facts: opened.facts };
}

/** Before anything listens: what the directory says can be started from the first request on. */
async function followWorkflows(engine: Engine, name: string | null, log: Log, stops: Stops): Promise<void> {
  if (name === null) return;
  const dir = loadWorkflows(name);
  await applyAtStart(engine, dir, log);
  const stopWatching = applyChanges(engine, dir, log);
  stops.add(async () => stopWatching());
}

async function openSafety(options: ServeOptions, live: LiveConfig, stops: Stops): Promise<Safety> {
  const { config, policy, role, log } = options;
  const { safetyAddress, safetyTrust } = config.process;
  if (safetyAddress === null || role === "safety") return localSafety(policy.kernel);
  const { openGrpcSafety } = await import("../../adapters/grpc/safety.ts");
  const timeoutMs = () => live.current.safety.timeoutMs;
  const trust = readCallerTrust(safetyTrust);
  const { safety, close } = openGrpcSafety({ address: safetyAddress, timeoutMs, trust, log });
  stops.add(async () => close());
  if (isUnencrypted(hostOf(safetyAddress), trust)) {
    const advice =
      "jobs and verdicts can be read and changed on the way; give the kernel a certificate, see `safety.tls.ca`";
    log.write("warn", "safety_line_in_the_clear", { address: safetyAddress, advice });
  }
  return safety;
}

async function listen(
  { engine, metrics, facts }: Base,
  { config, version, port }: ServeOptions,
  stops: Stops,
  control: SweeperStatus,
  routes: readonly Route[],
): Promise<Served> {
  const { host, bodyBytesMax, ratePerS, profile, safetyAddress, safetyTrust } = config.process;
  const kernel = {
    safety_address: safetyAddress ?? "",
    safety_line: safetyTrust.ca === null ? "plain" : "tls",
  } as const;
  const about: ServerInfo = { version, profile, ...facts, ...(safetyAddress && kernel) };
  const gateway = openGateway({ engine, sweeper: control, metrics, info: about }, { bodyBytesMax, ratePerS }, routes);
  stops.add(() => gateway.stop());
  return { url: await gateway.listen(host, port), about };
}

async function snapshotsIn(engine: Engine): Promise<readonly string[]> {
  const published = (await releases(engine)).map(({ snapshot }) => snapshot);
  return [...new Set([engine.kernel.inForce.snapshot.hash, ...published])];
}
