/**
 * Simulates one cell of `cordum lab admission`: a burst of callers of one org, and a second org that shares the servers.
 *
 * 1. Each replica is the production control plane, and callers get the responses of the gateway.
 * 2. Records and locks are on one server that handles one call at a time.
 * 3. The cell fails when more runs of the org are open than its limit.
 */

import { isRunFinal, RUNS, type Run } from "../../core/model/run.ts";
import type { Settings } from "../../core/settings.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Store } from "../../ports/store.ts";
import type { World } from "../../ports/world.ts";
import { latency } from "../../sim/adapters/net.ts";
import type { SimNet } from "../../sim/adapters/world.ts";
import { withLocks, withStore } from "../../sim/mutants/decorators.ts";
import type { Process } from "../../sim/process.ts";
import { SeededRandom } from "../../sim/random.ts";
import type { Row } from "../experiment.ts";
import { openLabNet, SerialServer, startReplicas } from "../simulation.ts";
import {
  type CallersSpec,
  ORG,
  type OtherSpec,
  type Response,
  runOtherOrg,
  startCallers,
  type Transport,
} from "./clients.ts";
import type { Cell } from "./experiment.ts";
import {
  type AdmissionHistory,
  applyWorkflows,
  CLIENTS,
  checkLimit,
  measure,
  observeAttempts,
  settingsOf,
} from "./scenario.ts";

/** `alone`: response times of the other org without the burst. */
export async function simulateCell(cell: Cell, alone: readonly number[]): Promise<Omit<Row, "key">> {
  return measure(cell, await simulateBurst(burstOf(cell, cell.contenders)), alone);
}

/** Response times of the other org without the burst. */
export async function otherAloneMs(cell: Cell): Promise<readonly number[]> {
  return (await simulateBurst(burstOf(cell, 0))).other.map(({ tookMs }) => tookMs);
}

function burstOf(cell: Cell, callers: number): BurstRequest {
  return { ...cell, callers, client: CLIENTS[cell.client], settings: settingsOf(cell) };
}

type BurstRequest = CallersSpec &
  OtherSpec &
  Pick<Cell, "seed" | "replicas" | "holdMs" | "latencyMs" | "storeMs"> & { readonly settings: Settings };

export async function simulateBurst(request: BurstRequest): Promise<AdmissionHistory> {
  const { settings, seed, latencyMs, replicas } = request;
  const random = new SeededRandom(seed, "admission");
  const net = openLabNet(random, settings, { latencyMs });
  const { timeline } = net;
  const attemptsMs: number[] = [];
  const server = new SerialServer(request.storeMs);
  const { engines } = await startReplicas(net, random, {
    ...{ count: replicas, settings, safety: "local" },
    decorate: (world, process) => {
      const queued = behindServer(world, net, process, server);
      return observeAttempts(queued, settings, () => attemptsMs.push(timeline.nowMs));
    },
  });
  await timeline.runUntilSettled(applyWorkflows(engines[0]!, request.holdMs));
  const openMax = countOpenRuns(net);
  attemptsMs.length = 0;
  const fromMs = timeline.nowMs;
  const other: Response[] = [];
  void runOtherOrg(transportOf(net, random.fork("beside"), engines), request, other);
  const { callers, done } = startCallers(transportOf(net, random.fork("callers"), engines), request);
  await timeline.runUntilSettled(done, LIMIT_MS);
  await timeline.runUntil(Math.max(timeline.nowMs, fromMs + request.otherForMs + SETTLE_MS));
  checkLimit(openMax());
  return { callers, other, attemptsMs, fromMs, openMax: openMax() };
}

function transportOf({ timeline, faults }: SimNet, random: SeededRandom, engines: readonly Engine[]): Transport {
  const pause = (delayMs: number): Promise<void> => new Promise((resolve) => timeline.post(delayMs, resolve));
  return {
    nowMs: () => timeline.nowMs,
    pause,
    hop: () => pause(latency(random, faults.bus)),
    random,
    server: (count) => engines[count % engines.length]!,
  };
}

/** Queues the store and lock calls of a replica at the shared server (2). */
function behindServer(world: World, { timeline }: SimNet, process: Process, server: SerialServer): World {
  const queued = async <T>(call: () => Promise<T>): Promise<T> => {
    // The service time is part of the simulated round trip; only the time in the queue is added.
    const queueMs = server.enqueue(timeline.nowMs) - server.serviceMs;
    if (queueMs > 0) await new Promise<void>((resolve) => process.after(queueMs, resolve));
    return call();
  };
  const queuedStore = (store: Store): Partial<Store> => ({
    load: (table, id) => queued(() => store.load(table, id)),
    counts: (group, limit) => queued(() => store.counts(group, limit)),
    commit: (change) => queued(() => store.commit(change)),
  });
  const queuedLocks = withLocks((locks) => ({ acquire: (request) => queued(() => locks.acquire(request)) }));
  return queuedLocks(withStore(queuedStore)(world));
}

/** Tracks the open runs of the org from the records. The returned function gives the maximum so far. */
function countOpenRuns(net: SimNet): () => number {
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
  return () => most;
}

const SETTLE_MS = 500;
const LIMIT_MS = 24 * 3_600_000;
