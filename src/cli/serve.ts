/** The whole control plane in one process: world, flow, gateway, and the demo worker where it is wanted. */
import { hostname } from "node:os";
import { type Config, LiveConfig } from "../config.ts";
import { type Control, startControl } from "../control.ts";
import { openFlow } from "../flow/flow.ts";
import type { About } from "../gateway/route.ts";
import { type GatewayServer, isLoopback, NotLoopback, openGateway } from "../gateway/server.ts";
import type { Stop } from "../ports/bus.ts";
import type { Log } from "../ports/log.ts";
import type { World } from "../world.ts";
import { localSafety } from "../worlds/local-safety.ts";
import { promMetrics } from "../worlds/prom-metrics.ts";
import { startDemoWorker } from "./demo.ts";
import type { LoadedPolicy } from "./load-policy.ts";

export interface Running {
  readonly url: string;
  readonly live: LiveConfig;
  readonly about: About;
  /** Takes nothing new, finishes what is in progress, lets go of everything. */
  stop(): Promise<void>;
}

export interface ServeOptions {
  readonly config: Config;
  readonly policy: LoadedPolicy;
  readonly version: string;
  readonly demo: boolean;
  readonly log: Log;
  readonly name: string;
}

export async function serve(options: ServeOptions): Promise<Running> {
  const { config, policy, log, name } = options;
  if (!isLoopback(config.process.host)) throw new NotLoopback(config.process.host);
  const metrics = promMetrics();
  const live = new LiveConfig(config);
  const opened = await openWorld(config, { name, log, metrics, safety: localSafety(policy.snapshot) });
  const stops: Stop[] = [opened.close];
  const stop = async () => {
    // Newest first: the gateway takes nothing new before the control plane behind it goes.
    for (const stopOne of stops.splice(0).reverse()) await stopOne();
  };
  try {
    const flow = openFlow(opened.world, live);
    const control: Control = await startControl(flow);
    stops.push(() => control.stop());
    if (options.demo) stops.push(await startDemoWorker(opened.world));
    const about = aboutOf(options);
    const gateway: GatewayServer = openGateway(
      { flow, control, metrics, about },
      { bodyBytesMax: config.process.bodyBytesMax },
    );
    stops.push(() => gateway.stop());
    const url = await gateway.listen(config.process.host, config.process.port);
    return { url, live, about, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Names a process to operators: host, pid and boot. */
export function processName(): string {
  return `${hostname()}-${process.pid}-${Date.now().toString(36)}`;
}

interface OpenedWorld {
  readonly world: World;
  readonly close: Stop;
}

async function openWorld(
  config: Config,
  parts: Pick<World, "name" | "log" | "metrics" | "safety">,
): Promise<OpenedWorld> {
  const { natsUrl, redisUrl, dataDir } = config.process;
  const { ackWaitMs, deliverMax, ackPendingMax } = config.settings.bus;
  const bus = { ackWaitMs, deliverMax, inFlightMax: ackPendingMax };
  if (natsUrl !== null && redisUrl !== null) {
    const { openCluster } = await import("../worlds/cluster.ts");
    return openCluster({ ...parts, nats: natsUrl, redis: redisUrl, bus });
  }
  const { openEmbedded } = await import("../worlds/embedded.ts");
  return openEmbedded({ ...parts, dir: dataDir, bus });
}

function aboutOf({ config, policy, version }: ServeOptions): About {
  const { document, hash } = policy.snapshot;
  const isCluster = config.process.natsUrl !== null;
  return {
    version,
    profile: config.process.profile,
    mode: isCluster ? "cluster" : "embedded",
    durability: isCluster ? CLUSTER_DURABILITY : EMBEDDED_DURABILITY,
    policy: {
      source: policy.source,
      version: document.version,
      snapshot: hash,
      rules: document.rules.length,
      default_decision: document.defaultDecision,
    },
  };
}

const EMBEDDED_DURABILITY = {
  profile: "power-cut",
  meaning: "an acknowledged job survives a power cut (SQLite, WAL, synchronous=FULL)",
};

const CLUSTER_DURABILITY = {
  profile: "as-configured",
  meaning:
    "as durable as your Redis (`appendfsync`) and NATS (`sync_interval`) are set up to be; see docs/operations.md",
};
