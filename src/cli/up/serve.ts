/** Starts the components of each role. A policy is in force before messages are consumed or requests accepted. */
import { hostname } from "node:os";
import { fileURLToPath } from "node:url";
import { readCallerTrust, readKernelTrust } from "../../adapters/grpc/pem.ts";
import { checkListenHost, isUnencrypted } from "../../adapters/grpc/trust.ts";
import { openAuditSigner } from "../../adapters/node/audit-signer.ts";
import { localSafety } from "../../adapters/node/local-safety.ts";
import { promMetrics } from "../../adapters/node/prom-metrics.ts";
import { ensureToken } from "../../adapters/node/startup-token.ts";
import { stoppableSafety } from "../../adapters/node/stoppable-safety.ts";
import { webhookNotifier } from "../../adapters/node/webhook-notifier.ts";
import { type Config, LiveConfig } from "../../config/config.ts";
import { KEYS_GROUP } from "../../core/model/api-key.ts";
import { hostOf } from "../../core/model/loopback.ts";
import type { LiveKernel } from "../../core/policy/kernel.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import { openAtStart, publishFile, releases, watchPolicy, watchSafety } from "../../engine/safety/index.ts";
import { startControl } from "../../engine/start-control.ts";
import { refreshPools, watchWorkers } from "../../engine/workers/index.ts";
import type { DemoControls, Route, ServerInfo, SweeperStatus } from "../../gateway/route.ts";
import { HEALTH_ROUTES } from "../../gateway/routes/health.ts";
import { openGateway, ROUTES } from "../../gateway/server.ts";
import type { Stop } from "../../ports/bus.ts";
import type { Log } from "../../ports/log.ts";
import type { Safety } from "../../ports/safety.ts";
import { startDemoWorker } from "./demo.ts";
import { demoControls } from "./demo-controls.ts";
import { type LoadedPolicy, publishChanges, putFileInForce } from "./load-policy.ts";
import { type OpenedWorld, openWorld } from "./open-world.ts";
import { threadLab } from "./thread-lab.ts";
import { applyAtStart, applyChanges, loadWorkflows } from "./workflow-dir.ts";

export const ROLES = ["all", "gateway", "control", "safety"] as const;
export type ServeRole = (typeof ROLES)[number];

export interface ServeOptions {
  readonly role: ServeRole;
  readonly config: Config;
  readonly policy: LoadedPolicy;
  /** The default depends on the role. */
  readonly port: number;
  /** Listens on a free port if `port` is in use. */
  readonly canMovePort: boolean;
  readonly version: string;
  readonly demo: boolean;
  readonly log: Log;
  readonly name: string;
  /** Aborts the wait for unreachable servers. */
  readonly signal: AbortSignal;
}

export interface Running {
  /** `http://…`, or `host:port` of a safety kernel. */
  readonly url: string;
  readonly live: LiveConfig;
  readonly kernel: LiveKernel;
  /** null for a safety kernel. */
  readonly about: ServerInfo | null;
  /** null if API keys exist, and for a safety kernel. */
  readonly startupToken: string | null;
  /** Graceful: finishes work in progress. */
  stop(): Promise<void>;
}

export async function serve(options: ServeOptions): Promise<Running> {
  const stops = new StopStack();
  const live = new LiveConfig(options.config);
  try {
    const served = await SERVE[options.role](options, live, stops);
    return { ...served, live, kernel: options.policy.kernel, stop: () => stops.stop() };
  } catch (error) {
    await stops.stop();
    throw error;
  }
}

/** Host, pid and start time. */
export function processName(): string {
  return `${hostname()}-${process.pid}-${Date.now().toString(36)}`;
}

type Served = Pick<Running, "url" | "about" | "startupToken">;
type Serve = (options: ServeOptions, live: LiveConfig, stops: StopStack) => Promise<Served>;

const SERVE: Readonly<Record<ServeRole, Serve>> = {
  all: serveAll,
  gateway: serveGateway,
  control: serveControl,
  safety: serveSafety,
};

async function serveAll(options: ServeOptions, live: LiveConfig, stops: StopStack): Promise<Served> {
  const base = await openBase(options, live, stops);
  const control = await startControl(base.engine);
  stops.add(() => control.stop());
  if (options.demo) stops.add(await startDemoWorker(base.engine.world));
  return listen(base, options, stops, control, ROUTES);
}

/** HTTP only; the control role processes the jobs. */
async function serveGateway(options: ServeOptions, live: LiveConfig, stops: StopStack): Promise<Served> {
  const base = await openBase(options, live, stops);
  const { engine } = base;
  engine.events.start();
  stops.add(() => engine.events.stop());
  stops.add(() => engine.tasks.close());
  stops.add(await watchWorkers(engine));
  stops.add(await watchSafety(engine));
  return listen(base, options, stops, { duties: () => [] }, ROUTES);
}

/** Consumers, sweeper and timers; HTTP serves health routes only. */
async function serveControl(options: ServeOptions, live: LiveConfig, stops: StopStack): Promise<Served> {
  const base = await openBase(options, live, stops);
  const control = await startControl(base.engine);
  stops.add(() => control.stop());
  if (options.demo) stops.add(await startDemoWorker(base.engine.world));
  return listen(base, options, stops, control, HEALTH_ROUTES);
}

/** The safety kernel over gRPC. In a cluster it follows the published policy, otherwise its policy file. */
async function serveSafety(options: ServeOptions, live: LiveConfig, stops: StopStack): Promise<Served> {
  const { config, log, policy } = options;
  const { kernel, file } = policy;
  const { host, natsUrl, safetyTrust } = config.process;
  const { startSafetyServer } = await import("../../adapters/grpc/safety-server.ts");
  // Checked first: a kernel that may not listen must not publish.
  const trust = readKernelTrust(safetyTrust);
  checkListenHost(host, trust);
  const engine = natsUrl === null ? null : (await openBase(options, live, stops)).engine;
  if (engine === null && file !== null) {
    const apply = (text: string) => putFileInForce(kernel, file.name, text);
    await apply(file.text);
    const stopWatching = publishChanges(file, log, apply);
    stops.add(async () => stopWatching());
  }
  if (isUnencrypted(host, trust)) {
    const advice =
      "without `safety.tls.cert`, checks, decisions and the token are not encrypted, and cordum callers send no token; " +
      "set `safety.tls.cert`, or put a TLS proxy in front of the kernel";
    log.write("warn", "safety_kernel_unencrypted", { host, advice });
  }
  const snapshots = engine === null ? undefined : () => snapshotsIn(engine);
  const { port } = options;
  const server = await startSafetyServer({ kernel, log, host, port, trust, ...(snapshots && { snapshots }) });
  stops.add(() => server.stop());
  return { url: server.address, about: null, startupToken: null };
}

interface Base {
  readonly engine: Engine;
  readonly live: LiveConfig;
  readonly metrics: ReturnType<typeof promMetrics>;
  readonly facts: OpenedWorld["facts"];
  readonly demo: DemoControls | null;
}

/** Opens world and engine; consumers are not started yet. */
async function openBase(options: ServeOptions, live: LiveConfig, stops: StopStack): Promise<Base> {
  const { config, policy, log, name, signal } = options;
  const metrics = promMetrics();
  const stoppable = isStoppable(options) ? stoppableSafety(policy.kernel) : null;
  const safety = stoppable ?? (await openSafety(options, live, stops));
  const opened = await openWorld(config, live, { name, log, metrics, safety, signal });
  stops.add(opened.close);
  const { notifications } = config.process;
  const notifier = notifications && { notifier: webhookNotifier({ ...notifications, signal }) };
  const engine = openEngine({ ...opened.world, ...notifier }, live, policy.kernel);
  const { file } = policy;
  if (file !== null) {
    await publishFile(engine, file);
    const stopWatching = publishChanges(file, log, (text) => publishFile(engine, { name: file.name, text }));
    stops.add(async () => stopWatching());
  }
  stops.add(await watchPolicy(engine));
  if (options.role === "safety") return { engine, live, metrics, facts: opened.facts, demo: null };
  // Promoted values are in force before the first job.
  await refreshPools(engine);
  if (config.process.failMode === "open") await openAtStart(engine);
  await watchWorkflows(engine, config.process.workflowsDir, log, stops);
  const demo = stoppable && demoControls(engine, stoppable);
  return { engine, live, metrics, facts: opened.facts, demo };
}

/** A demo with its kernel in this process can stop it. */
const isStoppable = ({ demo, role, config }: ServeOptions): boolean =>
  demo && role === "all" && config.process.safetyAddress === null;

/** Applied before the gateway listens, so that the first request can start the workflows. */
async function watchWorkflows(engine: Engine, name: string | null, log: Log, stops: StopStack): Promise<void> {
  if (name === null) return;
  const dir = loadWorkflows(name);
  await applyAtStart(engine, dir, log);
  const stopWatching = applyChanges(engine, dir, log);
  stops.add(async () => stopWatching());
}

async function openSafety(options: ServeOptions, live: LiveConfig, stops: StopStack): Promise<Safety> {
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
      "jobs and decisions can be read and changed in transit; set `safety.tls.cert` at the kernel and `safety.tls.ca` here";
    log.write("warn", "safety_connection_unencrypted", { address: safetyAddress, advice });
  }
  return safety;
}

async function listen(
  { engine, live, metrics, facts, demo }: Base,
  { config, version, port, canMovePort, log }: ServeOptions,
  stops: StopStack,
  control: SweeperStatus,
  routes: readonly Route[],
): Promise<Served> {
  const { host, profile, dataDir, safetyAddress, safetyTrust } = config.process;
  const kernel = {
    safety_address: safetyAddress ?? "",
    safety_line: safetyTrust.ca === null ? "plain" : "tls",
  } as const;
  const about: ServerInfo = { version, profile, ...facts, ...(safetyAddress && kernel) };
  const signer = openAuditSigner(config.process.auditKeyFile, facts.mode === "embedded" ? dataDir : null);
  const hasKeys = (await engine.world.store.counts(KEYS_GROUP, 1)).size > 0;
  const startupToken = hasKeys ? null : ensureToken(dataDir, () => engine.world.random.next());
  const dashboardDir = routes === ROUTES ? builtDashboard() : null;
  const lab = threadLab();
  stops.add(() => lab.close());
  const shown = { info: about, config: () => live.config, dashboardDir, lab, demo };
  const parts = { engine, sweeper: control, metrics, signer, startupToken, ...shown };
  const gateway = openGateway(parts, config.process, routes);
  stops.add(() => gateway.stop());
  const url = await gateway.listen(host, port).catch(async (error: unknown) => {
    if (!canMovePort || (error as { code?: unknown }).code !== "EADDRINUSE") throw error;
    const moved = await gateway.listen(host, 0);
    log.write("warn", "port_moved", { port, url: moved, advice: "set --port for a fixed address" });
    return moved;
  });
  return { url, about, startupToken };
}

/** Beside the bundle, or in the checkout. */
function builtDashboard(): string {
  const isSource = import.meta.url.endsWith(".ts");
  return fileURLToPath(new URL(isSource ? "../../../dist/dashboard" : "dashboard", import.meta.url));
}

async function snapshotsIn(engine: Engine): Promise<readonly string[]> {
  const published = (await releases(engine)).map(({ snapshot }) => snapshot);
  return [...new Set([engine.kernel.inForce.snapshot.hash, ...published])];
}

/** Stops components in reverse order of their start. */
class StopStack {
  readonly #stops: Stop[] = [];

  add(stop: Stop): void {
    this.#stops.push(stop);
  }

  /** A failing component does not prevent the others from stopping. */
  async stop(): Promise<void> {
    const failures: unknown[] = [];
    for (const stop of this.#stops.splice(0).reverse()) {
      await stop().catch((error: unknown) => failures.push(error));
    }
    if (failures.length === 0) return;
    throw new AggregateError(failures, `could not stop cleanly: ${failures.map(String).join("; ")}`);
  }
}
