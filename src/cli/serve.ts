/** The whole control plane in one process: world, flow, gateway, and the demo worker where it is wanted. */
import { hostname } from "node:os";
import { type Config, LiveConfig } from "../config.ts";
import { type Control, startControl } from "../control.ts";
import { openFlow } from "../flow/flow.ts";
import type { About } from "../gateway/route.ts";
import { type GatewayServer, isLoopback, NotLoopback, openGateway } from "../gateway/server.ts";
import type { Stop } from "../ports/bus.ts";
import type { Log } from "../ports/log.ts";
import { localSafety } from "../worlds/local-safety.ts";
import { promMetrics } from "../worlds/prom-metrics.ts";
import { startDemoWorker } from "./demo.ts";
import type { LoadedPolicy } from "./load-policy.ts";
import { type OpenedWorld, openWorld } from "./open-world.ts";

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
    // Newest first: the gateway takes nothing new before the control plane behind it goes. A part that cannot be
    // stopped well keeps no other from it.
    const failures: unknown[] = [];
    for (const stopOne of stops.splice(0).reverse()) await stopOne().catch((error: unknown) => failures.push(error));
    if (failures.length > 0)
      throw new AggregateError(failures, `could not stop cleanly: ${failures.map(String).join("; ")}`);
  };
  try {
    const flow = openFlow(opened.world, live);
    const control: Control = await startControl(flow);
    stops.push(() => control.stop());
    if (options.demo) stops.push(await startDemoWorker(opened.world));
    const about = aboutOf(options, opened.facts);
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

function aboutOf({ config, policy, version }: ServeOptions, facts: OpenedWorld["facts"]): About {
  const { document, hash } = policy.snapshot;
  return {
    version,
    profile: config.process.profile,
    ...facts,
    policy: {
      source: policy.source,
      version: document.version,
      snapshot: hash,
      rules: document.rules.length,
      default_decision: document.defaultDecision,
    },
  };
}
