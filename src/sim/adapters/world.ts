import { runTask } from "../../core/evaluation/tasks.ts";
import type { BusOptions } from "../../ports/bus.ts";
import type { Evaluator } from "../../ports/evaluator.ts";
import type { Log } from "../../ports/log.ts";
import type { World } from "../../ports/world.ts";
import { Flows } from "../flows.ts";
import type { Process } from "../process.ts";
import type { SeededRandom } from "../random.ts";
import { Timeline } from "../timeline.ts";
import { Trace } from "../trace.ts";
import { BusServer, PubSub, SimBus } from "./bus.ts";
import { type Counting, counting } from "./counting.ts";
import { LockServer } from "./lock-server.ts";
import { SimLocks } from "./locks.ts";
import { MemoryStore } from "./memory-store.ts";
import type { NetFaults, Network } from "./net.ts";
import { type Kernel, localSafety, remoteSafety } from "./safety.ts";
import { type BlobMap, type CommitHook, simBlobs, simStore } from "./store.ts";
import { TimeServer } from "./time.ts";

/** The parts of a simulation that outlive a process: clock, random generator, network and servers. */
export interface SimNet extends Network {
  readonly store: MemoryStore;
  readonly bus: BusServer;
  readonly pubSub: PubSub;
  readonly locks: LockServer;
  readonly blobs: BlobMap;
  readonly kernel: Kernel;
  readonly counting: Counting;
  onCommit: CommitHook;
}

export interface SimNetOptions {
  readonly random: SeededRandom;
  readonly faults: NetFaults;
  readonly bus: BusOptions;
  readonly kernel: Kernel;
  readonly verifiesWrites?: boolean;
  /** Keeps the trace entries, messages and lock holds. */
  readonly keepsTrace?: boolean;
  readonly onLog?: Log["write"];
}

export function openNet(options: SimNetOptions): SimNet {
  const timeline = new Timeline();
  const trace = new Trace(options.keepsTrace);
  const network: Network = {
    timeline,
    time: new TimeServer(timeline),
    trace,
    flows: options.keepsTrace ? new Flows(trace, () => timeline.nowMs) : null,
    random: options.random.fork("net"),
    faults: options.faults,
  };
  const locks = new LockServer(network);
  // The servers share this object, so that a change of its faults applies to all of them.
  return Object.assign(network, {
    // Locks and records share one server, as on Redis.
    store: new MemoryStore({ verifiesWrites: options.verifiesWrites ?? false, isFree: (lock) => locks.isFree(lock) }),
    bus: new BusServer(network, options.bus),
    pubSub: new PubSub(network),
    locks,
    blobs: new Map() as BlobMap,
    kernel: options.kernel,
    counting: counting(options.onLog),
    onCommit: (): void => undefined,
  });
}

/** Without a thread: the answers are the same, but the process is blocked meanwhile. */
export const inlineEvaluator: Evaluator = { run: async (_org, name, input) => runTask(name, input) };

/** The ports of one process. */
export function simWorld(net: SimNet, process: Process, options: { readonly safety: "local" | "remote" }): World {
  return {
    name: process.name,
    clock: process.clock,
    random: process.random,
    bus: new SimBus(net, net.bus, net.pubSub, process),
    store: simStore(net, net.store, process, (by, change, committed) => net.onCommit(by, change, committed)),
    locks: new SimLocks(net, net.locks, process),
    blobs: simBlobs(net, net.blobs, process),
    safety: options.safety === "local" ? localSafety(net.kernel) : remoteSafety(net, net.kernel, process),
    evaluator: inlineEvaluator,
    log: net.counting.log,
    metrics: net.counting.metrics,
  };
}
