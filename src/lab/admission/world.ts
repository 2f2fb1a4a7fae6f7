/**
 * One cell of `cordum lab admission`: many callers want to start a run of one org at the same instant, and a second org
 * goes about its own business beside it, on virtual time.
 *
 * 1. Each replica is the shipped control plane: `openFlow`, `startControl`, `startRun`; what callers are told is what the
 *    gateway would answer. Invented is only the world round it.
 * 2. Records and locks are one server that does one thing at a time: who asks a thousand times is in everybody's way.
 * 3. Never are more runs of the org open than its limit, or the experiment fails.
 */

import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { Settings } from "../../core/settings.ts";
import { startControl } from "../../engine/control.ts";
import { type Engine, openEngine } from "../../engine/engine.ts";
import type { Store } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { latency } from "../../sim/adapters/net.ts";
import { openNet, type SimNet, simWorld } from "../../sim/adapters/world.ts";
import { NO_NET_FAULTS } from "../../sim/faults.ts";
import { withLocks, withStore } from "../../sim/mutants/decorators.ts";
import { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";
import { ALLOWS } from "../lock-busy/stage.ts";
import { OneServer } from "../one-server.ts";
import { type Answered, type Caller, type ClientOrder, callAll, callBeside, ORG, type Street } from "./clients.ts";
import { applyWorkflows, LIMIT, noted } from "./stage.ts";

export interface AdmissionOrder extends ClientOrder {
  readonly seed: number;
  readonly settings: Settings;
  readonly replicas: number;
  /** How long a run lasts. */
  readonly holdMs: number;
  readonly latencyMs: number;
  /** What one call costs the server of records and locks. */
  readonly storeMs: number;
}

export interface AdmissionHistory {
  readonly callers: readonly Caller[];
  /** What became of the requests of the other org. */
  readonly beside: readonly Answered[];
  /** When somebody asked for the org's lock or, without one, for its slot. */
  readonly asksMs: readonly number[];
  readonly fromMs: number;
  readonly openMax: number;
}

export async function runAdmission(order: AdmissionOrder): Promise<AdmissionHistory> {
  const { settings, seed, latencyMs } = order;
  const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = settings.bus;
  const random = new SeededRandom(seed, "admission");
  const { store, bus } = NO_NET_FAULTS;
  const faults = { ...NO_NET_FAULTS, store: { ...store, latencyMs }, bus: { ...bus, latencyMs } };
  const net = openNet({ random, faults, bus: { ackWaitMs, deliverMax, inFlightMax }, kernel: ALLOWS });
  const { timeline } = net;
  const asksMs: number[] = [];
  const server = new OneServer(order.storeMs);
  const isPolled = settings.admission.strategy === "polled";
  const engines: Engine[] = [];
  for (let index = 0; index < order.replicas; index += 1) {
    const process = new Process(timeline, `replica-${index + 1}`, random.fork(`replica-${index + 1}`));
    const world = inLine(simWorld(net, process, { safety: "local" }), { net, process, server });
    engines.push(
      openEngine(
        noted(world, isPolled, () => asksMs.push(timeline.nowMs)),
        { current: settings },
      ),
    );
  }
  await timeline.runUntilSettled(Promise.all(engines.map(startControl)));
  await timeline.runUntilSettled(applyWorkflows(engines[0]!, order.holdMs));
  const watch = watchOpen(net);
  asksMs.length = 0;
  const fromMs = timeline.nowMs;
  const beside: Answered[] = [];
  void callBeside(streetOf(net, random.fork("beside"), engines), order, beside);
  const { callers, done } = callAll(streetOf(net, random.fork("callers"), engines), order);
  await timeline.runUntilSettled(done, LIMIT_MS);
  await timeline.runUntil(Math.max(timeline.nowMs, fromMs + order.besideForMs + SETTLE_MS));
  if (watch.openMax() > LIMIT) throw new Error(`${watch.openMax()} runs were open at a limit of ${LIMIT}`);
  return { callers, beside, asksMs, fromMs, openMax: watch.openMax() };
}

function streetOf(net: SimNet, random: SeededRandom, engines: readonly Engine[]): Street {
  const { timeline, faults } = net;
  const pause = (delayMs: number): Promise<void> => new Promise((resolve) => timeline.post(delayMs, resolve));
  return {
    nowMs: () => timeline.nowMs,
    pause,
    hop: () => pause(latency(random, faults.bus)),
    random,
    server: (count) => engines[count % engines.length]!,
  };
}

interface Seat {
  readonly net: SimNet;
  readonly process: Process;
  readonly server: OneServer;
}

/** The world of a replica: its calls stand in line before the one server (2). */
function inLine(world: World, { net, process, server }: Seat): World {
  const { timeline } = net;
  const { serviceMs } = server;
  const wait = async <T>(call: () => Promise<T>): Promise<T> => {
    const aheadMs = server.take(timeline.nowMs) - serviceMs;
    // Who is served at once waits for nobody; what his own turn takes is part of the way there and back.
    if (aheadMs > 0) await new Promise<void>((resolve) => process.after(aheadMs, resolve));
    return call();
  };
  const slow = (store: Store): Partial<Store> => ({
    load: (table, id) => wait(() => store.load(table, id)),
    counts: (group, limit) => wait(() => store.counts(group, limit)),
    commit: (change) => wait(() => store.commit(change)),
  });
  const slowLocks = withLocks((locks) => ({ acquire: (request) => wait(() => locks.acquire(request)) }));
  return slowLocks(withStore(slow)(world));
}

/** Counted from the records themselves, at every commit. */
function watchOpen(net: SimNet): { openMax(): number } {
  const open = new Set<string>();
  let most = 0;
  net.store.observe(({ puts }) => {
    for (const { table, id, value } of puts) {
      if (table !== RUNS.name) continue;
      const run = value as Run | null;
      if (run !== null && run.org === ORG && !isRunFinal(run.state)) open.add(id);
      else open.delete(id);
    }
    most = Math.max(most, open.size);
  });
  return { openMax: () => most };
}

const SETTLE_MS = 500;
const LIMIT_MS = 24 * 3_600_000;
