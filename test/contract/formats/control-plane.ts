/** A control plane on real servers whose wall clock starts at a given time, called without sockets. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditSigner } from "../../../src/adapters/node/audit-signer.ts";
import { localSafety } from "../../../src/adapters/node/local-safety.ts";
import { promMetrics } from "../../../src/adapters/node/prom-metrics.ts";
import { startDemoWorker } from "../../../src/cli/up/demo.ts";
import { defaultSettings } from "../../../src/config/config.ts";
import type { PolicyDocument } from "../../../src/core/policy/document.ts";
import { builtInKernel, DEMO_POLICY } from "../../../src/core/policy/kernel.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { openGateway } from "../../../src/gateway/server.ts";
import type { Blobs } from "../../../src/ports/blobs.ts";
import type { World } from "../../../src/ports/world.ts";
import { openCluster } from "../../../src/worlds/cluster.ts";
import { STARTUP_TOKEN, sendToken, TEST_LIMITS } from "../../gateway/test-gateway.ts";
import { quietLog } from "../quiet-log.ts";

export interface ControlPlane {
  readonly world: World;
  readonly engine: Engine;
  call(method: "GET" | "POST", path: string, body?: object, tenant?: string): Promise<Answer>;
  /** Further calls use this API key. */
  use(key: string): void;
  /** Repeats a GET until its answer matches. */
  until(path: string, isReached: (answer: Answer) => boolean): Promise<Answer>;
  close(): Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: a response of any route
export type Answer = { readonly status: number; readonly body: any };

export interface Options {
  readonly nats: string;
  readonly redis: string;
  readonly nowMs: number;
  readonly change?: (settings: Settings) => Settings;
}

/** The policy of the recorded approvals: another one voids them. */
const RECORDED_POLICY: PolicyDocument = {
  ...DEMO_POLICY,
  rules: DEMO_POLICY.rules.map((rule) =>
    rule.id === "approve-demo-approve" ? { ...rule, match: { topics: ["demo.approve"] } } : rule,
  ),
};

export async function openControlPlane({
  nats,
  redis,
  nowMs,
  change = (same) => same,
}: Options): Promise<ControlPlane> {
  const kernel = builtInKernel(RECORDED_POLICY, "test");
  const settings = change(defaultSettings());
  const { ackWaitMs, deliverMax, ackPendingMax } = settings.bus;
  const metrics = promMetrics();
  const cluster = await openCluster({
    nats,
    redis,
    name: "formats",
    log: quietLog,
    metrics,
    safety: localSafety(kernel),
    bus: { ackWaitMs, deliverMax, inFlightMax: ackPendingMax },
  });
  const { clock, blobs } = cluster.world;
  const lagMs = clock.now() - nowMs;
  const world: World = {
    ...cluster.world,
    clock: { now: () => clock.now() - lagMs, after: (delayMs, fn) => clock.after(delayMs, fn) },
    blobs: laggingBlobs(blobs, lagMs),
  };
  const engine = openEngine(world, { current: settings }, kernel);
  const control = await startControl(engine);
  const stopWorker = await startDemoWorker(world);
  const dir = mkdtempSync(join(tmpdir(), "cordum-formats-"));
  const signer = openAuditSigner(null, dir);
  const durability = { profile: "test", meaning: "a test" };
  const info = { version: "0.0.0", profile: "default", mode: "cluster", durability, warnings: [] } as const;
  const parts = { engine, sweeper: control, metrics, info, signer, startupToken: STARTUP_TOKEN };
  const { app, stop } = openGateway(parts, TEST_LIMITS);
  sendToken(app);
  let key: string | undefined;
  const call: ControlPlane["call"] = async (method, path, body, tenant) => {
    const headers = { ...(key && { "x-api-key": key }), ...(tenant && { "x-tenant-id": tenant }) };
    const payload = body === undefined ? {} : { payload: body };
    const response = await app.inject({ method, url: `/api/v1${path}`, headers, ...payload });
    return { status: response.statusCode, body: response.json() };
  };
  return {
    world,
    engine,
    call,
    use(next) {
      key = next;
    },
    async until(path, isReached) {
      for (;;) {
        const answer = await call("GET", path);
        if (isReached(answer)) return answer;
        await new Promise((resolve) => clock.after(20, () => resolve(null)));
      }
    },
    async close() {
      await stop();
      await stopWorker();
      await control.stop();
      await cluster.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Redis expires blobs by its own clock. */
function laggingBlobs(blobs: Blobs, lagMs: number): Blobs {
  return {
    put: (key, bytes, expiresAtMs) => blobs.put(key, bytes, expiresAtMs + lagMs),
    get: (key) => blobs.get(key),
    delete: (key) => blobs.delete(key),
  };
}
