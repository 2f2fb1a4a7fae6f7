import { localSafety } from "../../../src/adapters/node/local-safety.ts";
import { pinoLog } from "../../../src/adapters/node/pino-log.ts";
import { promMetrics } from "../../../src/adapters/node/prom-metrics.ts";
import { defaultSettings } from "../../../src/config/config.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { DEFAULT_POLICY } from "../../../src/core/policy/kernel.ts";
import type { Log } from "../../../src/ports/log.ts";
import type { World } from "../../../src/ports/world.ts";
import type { BackendSpec } from "../task.ts";

export type CordumSpec = Extract<BackendSpec, { kind: "cluster" | "embedded" }>;

export function cordumOnly(spec: BackendSpec): CordumSpec {
  if (spec.kind === "cluster" || spec.kind === "embedded") return spec;
  throw new Error(`this task measures Cordum only, not ${spec.kind}`);
}

/**
 * A world as `cordum up` opens it: metrics, default settings and the built-in policy. Warnings go to stderr while it is
 * measured, and are suppressed when it opens and closes.
 */
export async function openWorld(spec: CordumSpec): Promise<OpenedWorld> {
  const name = `bench-${process.pid}`;
  const log = pinoLog({ level: "warn", name, target: process.stderr });
  let isMeasuring = false;
  const gated: Log = { write: (level, event, fields) => void (isMeasuring && log.write(level, event, fields)) };
  const opened = await open(spec, name, gated);
  isMeasuring = true;
  return {
    world: opened.world,
    async close() {
      isMeasuring = false;
      await opened.close();
    },
  };
}

export interface OpenedWorld {
  readonly world: World;
  close(): Promise<void>;
}

async function open(spec: CordumSpec, name: string, log: Log): Promise<OpenedWorld> {
  const { bus } = defaultSettings();
  const parts = {
    name,
    log,
    metrics: promMetrics(),
    safety: localSafety(compile(DEFAULT_POLICY)),
    bus: { ackWaitMs: bus.ackWaitMs, deliverMax: bus.deliverMax, inFlightMax: bus.ackPendingMax },
  };
  switch (spec.kind) {
    case "cluster": {
      const { openCluster } = await import("../../../src/worlds/cluster.ts");
      return openCluster({ ...parts, nats: spec.natsUrl, redis: spec.redisUrl });
    }
    case "embedded": {
      const { openEmbedded } = await import("../../../src/worlds/embedded.ts");
      return openEmbedded({ ...parts, dir: spec.dataDir });
    }
    default:
      return spec satisfies never;
  }
}
