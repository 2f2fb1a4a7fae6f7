/** A gateway on an embedded world in a directory of its own, without sockets, and a way to wait for jobs to end. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { defaultSettings } from "../../src/config.ts";
import { startControl } from "../../src/control.ts";
import { openFlow } from "../../src/flow/flow.ts";
import { type GatewayServer, openGateway } from "../../src/gateway/server.ts";
import { DEMO_POLICY } from "../../src/policy/built-in.ts";
import { compile } from "../../src/policy/compile.ts";
import type { Log } from "../../src/ports/log.ts";
import type { Metrics } from "../../src/ports/metrics.ts";
import type { Settings } from "../../src/settings.ts";
import type { World } from "../../src/world.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";
import { localSafety } from "../../src/worlds/local-safety.ts";
import { promMetrics } from "../../src/worlds/prom-metrics.ts";

export interface TestGateway {
  readonly app: FastifyInstance;
  readonly server: GatewayServer;
  readonly world: World;
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
}

export async function openTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const dir = mkdtempSync(join(tmpdir(), "cordum-gateway-"));
  const settings = options.settings ?? defaultSettings();
  const prom = promMetrics();
  const ends = countEnds(prom);
  const logged: string[] = [];
  const log: Log = { write: (level, event) => void logged.push(`${level} ${event}`) };
  const snapshot = compile(DEMO_POLICY);
  const { ackWaitMs, deliverMax, ackPendingMax } = settings.bus;
  const { world, close } = await openEmbedded({
    dir,
    name: "test",
    log,
    metrics: ends.metrics,
    safety: localSafety(snapshot),
    bus: { ackWaitMs, deliverMax, inFlightMax: ackPendingMax },
  });
  const control = await startControl(openFlow(world, { current: settings }));
  const flow = openFlow({ ...world, ...options.change?.(world) }, { current: settings });
  const policy = { source: "test", version: null, snapshot: snapshot.hash, rules: 2, default_decision: "deny" };
  const durability = { profile: "test", meaning: "a test" };
  const about = { version: "0.0.0", profile: "default", mode: "embedded", durability, warnings: [], policy } as const;
  const seen = { sweptMs: options.sweptMs ?? (() => control.sweptMs()) };
  const server = openGateway({ flow, control: seen, metrics: prom, about }, { bodyBytesMax: 64 * 1024 });
  return {
    app: server.app,
    server,
    world,
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
