/** A gateway on an embedded world in a temporary directory, called without sockets. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance, LightMyRequestResponse } from "fastify";
import { openAuditSigner } from "../../src/adapters/node/audit-signer.ts";
import { localSafety } from "../../src/adapters/node/local-safety.ts";
import { promMetrics } from "../../src/adapters/node/prom-metrics.ts";
import { defaultSettings } from "../../src/config/config.ts";
import {
  API_KEYS,
  type ApiKey,
  hashOf,
  keyText,
  newSecret,
  type Role,
  STARTUP_ID,
} from "../../src/core/model/api-key.ts";
import { builtInKernel, DEMO_POLICY } from "../../src/core/policy/kernel.ts";
import type { Settings } from "../../src/core/settings.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import type { DutyStatus } from "../../src/engine/maintenance/index.ts";
import { startControl } from "../../src/engine/start-control.ts";
import type { Route, ServerInfo } from "../../src/gateway/route.ts";
import { type GatewayLimits, type GatewayServer, openGateway } from "../../src/gateway/server.ts";
import type { Log } from "../../src/ports/log.ts";
import type { Metrics } from "../../src/ports/metrics.ts";
import { put } from "../../src/ports/store.ts";
import type { World } from "../../src/ports/world.ts";
import { inlineEvaluator } from "../../src/sim/adapters/world.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";
import { checkResponses } from "./response-check.ts";

export interface TestGateway {
  readonly app: FastifyInstance;
  readonly server: GatewayServer;
  readonly world: World;
  readonly engine: Engine;
  call(method: "GET" | "POST" | "PUT" | "DELETE", url: string, options?: CallOptions): Promise<LightMyRequestResponse>;
  /** Creates a key in the store, without authentication. */
  keyOf(tenant: string, role: Role, expiresMs?: number | null): Promise<TestKey>;
  readonly logged: readonly string[];
  /** Resolves once `count` jobs in total have reached a final state. */
  ended(count: number): Promise<void>;
  /** Throws if a response did not match its schema. */
  close(): Promise<void>;
}

export interface TestGatewayOptions {
  readonly settings?: Settings;
  /** Replaces ports of the gateway, such as the store or the clock. */
  readonly change?: (world: World) => Partial<World>;
  readonly duties?: () => readonly DutyStatus[];
  readonly ratePerS?: number;
  readonly limits?: Partial<GatewayLimits>;
  readonly info?: Partial<ServerInfo>;
  /** Replaces the log that fills `logged`. */
  readonly log?: Log;
  /** Signs audit checkpoints by default. */
  readonly hasSigner?: boolean;
  readonly evaluatesInThread?: true;
  /** Requests without a key stay so; otherwise they get the start-up token. */
  readonly withoutToken?: true;
  /** Replaces all routes. */
  readonly routes?: readonly Route[];
}

export interface CallOptions {
  readonly key?: string | undefined;
  readonly tenant?: string | undefined;
  readonly body?: object | undefined;
}

export interface TestKey {
  readonly id: string;
  readonly key: string;
}

export async function openTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const dir = mkdtempSync(join(tmpdir(), "cordum-gateway-"));
  const settings = options.settings ?? defaultSettings();
  const prom = promMetrics();
  const ends = countEnds(prom);
  const logged: string[] = [];
  const log: Log = options.log ?? { write: (level, event) => void logged.push(`${level} ${event}`) };
  const kernel = builtInKernel(DEMO_POLICY, "test");
  const { ackWaitMs, deliverMax, ackPendingMax } = settings.bus;
  const { world, close } = await openEmbedded({
    dir,
    name: "test",
    log,
    metrics: ends.metrics,
    safety: localSafety(kernel),
    disk: { usage: async () => ({ path: "/data", freeBytes: 60e9, totalBytes: 100e9 }) },
    // A thread per test would take longer than the test.
    ...(options.evaluatesInThread ? {} : { evaluator: inlineEvaluator }),
    bus: { ackWaitMs, deliverMax, inFlightMax: ackPendingMax },
  });
  const controlEngine = openEngine(world, { current: settings }, kernel);
  const control = await startControl(controlEngine);
  // As in a real process, gateway and control plane share the engine unless the test replaces ports.
  const engine = options.change
    ? openEngine({ ...world, ...options.change(world) }, { current: settings }, kernel)
    : controlEngine;
  const signer = options.hasSigner === false ? null : openAuditSigner(null, dir);
  const durability = { profile: "test", meaning: "a test" };
  const defaults = { version: "0.0.0", profile: "default", mode: "embedded", durability, warnings: [] } as const;
  const info: ServerInfo = { ...defaults, ...options.info };
  const sweeper = { duties: options.duties ?? (() => control.duties()) };
  const limits = { ...TEST_LIMITS, ratePerS: options.ratePerS ?? TEST_LIMITS.ratePerS, ...options.limits };
  const parts = { engine, sweeper, metrics: prom, info, signer, startupToken: STARTUP_TOKEN };
  const server = openGateway(parts, limits, options.routes);
  const violations = checkResponses(server.app);
  if (!options.withoutToken) sendToken(server.app);
  return {
    app: server.app,
    server,
    world,
    engine,
    call: (method, url, { key, tenant, body } = {}) =>
      server.app.inject({
        method,
        url,
        headers: { ...(key ? { "x-api-key": key } : {}), ...(tenant ? { "x-tenant-id": tenant } : {}) },
        ...(body === undefined ? {} : { payload: body }),
      }),
    keyOf: (tenant, role, expiresMs = null) => createKey(world, tenant, role, expiresMs),
    logged,
    ended: ends.ended,
    async close() {
      await server.stop();
      await control.stop();
      await close();
      rmSync(dir, { recursive: true, force: true });
      if (violations.length > 0) throw new Error(`not as in docs/openapi.json: ${[...new Set(violations)].join("\n")}`);
    },
  };
}

export const STARTUP_TOKEN = keyText(STARTUP_ID, "s".repeat(43));

/** Adds the start-up token to requests without a key, as the command line does. */
export function sendToken(app: FastifyInstance): void {
  app.addHook("onRequest", async ({ headers }) => {
    if (headers.authorization === undefined) headers["x-api-key"] ??= STARTUP_TOKEN;
  });
}

export const TEST_LIMITS: GatewayLimits = {
  bodyBytesMax: 64 * 1024,
  ratePerS: 2_000,
  connections: {
    max: 10_000,
    perAddressMax: 5_000,
    headersMs: 10_000,
    requestMs: 30_000,
    keepAliveMs: 72_000,
    responseMs: 60_000,
  },
  session: { idleMs: 3_600_000, maxMs: 43_200_000 },
  shutdownGraceMs: 0,
};

async function createKey(world: World, org: string, role: Role, expiresMs: number | null): Promise<TestKey> {
  const { store, random, clock } = world;
  const [id, secret] = [random.id(), newSecret(() => random.next())];
  const lifetime = { createdMs: clock.now(), createdBy: "test", expiresMs, revokedMs: null };
  const key: ApiKey = { id, org, role, name: null, sha256: hashOf(secret), ...lifetime };
  await store.commit({
    org,
    atMs: clock.now(),
    puts: [put(API_KEYS, id, null, key)],
    guards: [],
    sends: [],
    watch: [],
  });
  return { id, key: keyText(id, secret) };
}

/** Finished jobs are counted after their commit, so waiting for the counter waits for the commit. */
function countEnds(inner: Metrics): { metrics: Metrics; ended(count: number): Promise<void> } {
  let count = 0;
  const waiters: { count: number; resolve: () => void }[] = [];
  const metrics: Metrics = {
    set: inner.set,
    observe: inner.observe,
    add(name, labels, amount) {
      inner.add(name, labels, amount);
      if (name !== "cordum_jobs_total") return;
      count += 1;
      for (const one of waiters.filter((entry) => entry.count <= count)) one.resolve();
    },
  };
  return {
    metrics,
    ended: (target) =>
      target <= count ? Promise.resolve() : new Promise((resolve) => waiters.push({ count: target, resolve })),
  };
}
