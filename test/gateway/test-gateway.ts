/** A gateway on an embedded world in a directory of its own, without sockets, and a way to wait for jobs to end. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance, LightMyRequestResponse } from "fastify";
import { localSafety } from "../../src/adapters/node/local-safety.ts";
import { promMetrics } from "../../src/adapters/node/prom-metrics.ts";
import { defaultSettings } from "../../src/config/config.ts";
import { API_KEYS, type ApiKey, hashOf, keyText, newSecret, type Role } from "../../src/core/model/api-key.ts";
import { builtInKernel, DEMO_POLICY } from "../../src/core/policy/kernel.ts";
import type { Settings } from "../../src/core/settings.ts";
import { startControl } from "../../src/engine/control.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import type { Route, ServerInfo } from "../../src/gateway/route.ts";
import { type GatewayServer, openGateway } from "../../src/gateway/server.ts";
import type { Log } from "../../src/ports/log.ts";
import type { Metrics } from "../../src/ports/metrics.ts";
import { put } from "../../src/ports/store.ts";
import type { World } from "../../src/ports/world.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";

export interface TestGateway {
  readonly app: FastifyInstance;
  readonly server: GatewayServer;
  readonly world: World;
  readonly engine: Engine;
  call(method: "GET" | "POST" | "PUT" | "DELETE", url: string, options?: CallOptions): Promise<LightMyRequestResponse>;
  /** Makes a key, past the gateway: no other key is needed for it. */
  keyOf(tenant: string, role: Role, expiresMs?: number | null): Promise<MadeKey>;
  readonly logged: readonly string[];
  /** Resolves once so many jobs in all have reached a final state. */
  ended(count: number): Promise<void>;
  close(): Promise<void>;
}

export interface TestGatewayOptions {
  readonly settings?: Settings;
  /** Replaces parts of the world that the gateway sees: a store that fails, a clock that runs. */
  readonly change?: (world: World) => Partial<World>;
  readonly sweptMs?: () => number;
  readonly ratePerS?: number;
  /** What the process says of itself, beside the usual. */
  readonly about?: Partial<ServerInfo>;
  /** In place of one that keeps the names of events, for `logged`. */
  readonly log?: Log;
  /** In place of all that there are. */
  readonly routes?: readonly Route[];
}

export interface CallOptions {
  readonly key?: string | undefined;
  readonly tenant?: string | undefined;
  readonly body?: object | undefined;
}

export interface MadeKey {
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
    bus: { ackWaitMs, deliverMax, inFlightMax: ackPendingMax },
  });
  const controlled = openEngine(world, { current: settings }, kernel);
  const control = await startControl(controlled);
  // One flow, as in a real process; another one only where the gateway is to see another world than the control plane.
  const engine = options.change
    ? openEngine({ ...world, ...options.change(world) }, { current: settings }, kernel)
    : controlled;
  const durability = { profile: "test", meaning: "a test" };
  const usual = { version: "0.0.0", profile: "default", mode: "embedded", durability, warnings: [] } as const;
  const about: ServerInfo = { ...usual, ...options.about };
  const seen = { sweptMs: options.sweptMs ?? (() => control.sweptMs()) };
  const limits = { bodyBytesMax: 64 * 1024, ...(options.ratePerS ? { ratePerS: options.ratePerS } : {}) };
  const server = openGateway({ engine, sweeper: seen, metrics: prom, info: about }, limits, options.routes);
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
    keyOf: (tenant, role, expiresMs = null) => makeKey(world, tenant, role, expiresMs),
    logged,
    ended: ends.ended,
    async close() {
      await server.stop();
      await control.stop();
      await close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function makeKey(world: World, org: string, role: Role, expiresMs: number | null): Promise<MadeKey> {
  const { store, random, clock } = world;
  const [id, secret] = [random.id(), newSecret(() => random.next())];
  const made = { createdMs: clock.now(), createdBy: "test", expiresMs, revokedMs: null };
  const key: ApiKey = { id, org, role, name: null, sha256: hashOf(secret), ...made };
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

/** Metrics that can be waited for: a job that has ended has been counted after its commit. */
function countEnds(inner: Metrics): { metrics: Metrics; ended(count: number): Promise<void> } {
  let count = 0;
  const waiting: { count: number; resolve: () => void }[] = [];
  const metrics: Metrics = {
    set: inner.set,
    observe: inner.observe,
    add(name, labels, amount) {
      inner.add(name, labels, amount);
      if (name !== "cordum_jobs_total") return;
      count += 1;
      for (const one of waiting.filter((entry) => entry.count <= count)) one.resolve();
    },
  };
  return {
    metrics,
    ended: (wanted) =>
      wanted <= count ? Promise.resolve() : new Promise((resolve) => waiting.push({ count: wanted, resolve })),
  };
}
