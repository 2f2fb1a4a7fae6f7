/**
 * One cell of `cordum lab admission`: many callers want to start a run of one org at the same instant, and a second org
 * goes about its own business beside it, on virtual time.
 *
 * 1. Each replica is the shipped control plane: `openFlow`, `startControl`, `startRun`; what callers are told is what the
 *    gateway would answer. Invented is only the world round it.
 * 2. Records and locks are one server that does one thing at a time: who asks a thousand times is in everybody's way.
 * 3. Never are more runs of the org open than its limit, or the experiment fails.
 */
import { startControl } from "../control.ts";
import { type Flow, openFlow } from "../flow/flow.ts";
import { admissionLockOf } from "../flow/gate.ts";
import { applyWorkflow } from "../flow/workflows.ts";
import { isRunFinal, RUNS, RUNS_GROUP, type Run } from "../model/run.ts";
import type { Change, Store } from "../ports/store.ts";
import type { Settings } from "../settings.ts";
import { withLocks, withStore } from "../sim/decorators.ts";
import { CALM } from "../sim/faults.ts";
import { Process } from "../sim/process.ts";
import { SeededRandom } from "../sim/random.ts";
import { openNet, type SimNet, simWorld } from "../sim/world.ts";
import type { World } from "../world.ts";
import {
  type Answered,
  BESIDE,
  type Caller,
  type ClientOrder,
  callAll,
  callBeside,
  ORG,
  WORKFLOWS,
} from "./admission-clients.ts";
import { ALLOWS } from "./lock-busy-stage.ts";
import { OneServer } from "./one-server.ts";

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

/** How many runs of the busy org may be open. */
export const LIMIT = 2;

export async function runAdmission(order: AdmissionOrder): Promise<AdmissionHistory> {
  const { settings, seed, latencyMs } = order;
  const { ackWaitMs, deliverMax, ackPendingMax: inFlightMax } = settings.bus;
  const random = new SeededRandom(seed, "admission");
  const { store, bus } = CALM;
  const faults = { ...CALM, store: { ...store, latencyMs }, bus: { ...bus, latencyMs } };
  const net = openNet({ random, faults, bus: { ackWaitMs, deliverMax, inFlightMax }, kernel: ALLOWS });
  const { timeline } = net;
  const asksMs: number[] = [];
  const server = new OneServer(order.storeMs);
  const isPolled = settings.admission.strategy === "polled";
  const flows: Flow[] = [];
  for (let index = 0; index < order.replicas; index += 1) {
    const process = new Process(timeline, `replica-${index + 1}`, random.fork(`replica-${index + 1}`));
    const world = seen(simWorld(net, process, { safety: "local" }), { net, process, server, asksMs, isPolled });
    flows.push(openFlow(world, { current: settings }));
  }
  await timeline.runUntilSettled(Promise.all(flows.map(startControl)));
  await timeline.runUntilSettled(prepare(flows, order.holdMs));
  const watch = watchOpen(net);
  asksMs.length = 0;
  const fromMs = timeline.nowMs;
  const beside: Answered[] = [];
  callBeside(net, random.fork("beside"), flows, order, beside);
  const callers = callAll(net, random.fork("callers"), flows, order);
  await timeline.runUntilSettled(Promise.all(callers.map(({ done }) => done)), LIMIT_MS);
  await timeline.runUntil(Math.max(timeline.nowMs, fromMs + order.besideForMs + SETTLE_MS));
  if (watch.openMax() > LIMIT) throw new Error(`${watch.openMax()} runs were open at a limit of ${LIMIT}`);
  return { callers, beside, asksMs, fromMs, openMax: watch.openMax() };
}

/** Both workflows for both orgs, and every replica has compiled them. */
async function prepare(flows: readonly Flow[], holdMs: number): Promise<void> {
  const hold = { id: WORKFLOWS.hold, steps: { hold: { type: "delay", delay_sec: holdMs / 1_000 } } };
  const pass = { id: WORKFLOWS.pass, steps: { pass: { type: "transform", input: "done" } } };
  for (const [org, document] of [
    [ORG, hold],
    [BESIDE, pass],
  ] as const) {
    const applied = await applyWorkflow(flows[0]!, { org, by: "lab", document });
    if (applied.kind === "invalid") throw new Error(applied.problems.join("; "));
  }
}

interface Seat {
  readonly net: SimNet;
  readonly process: Process;
  readonly server: OneServer;
  readonly asksMs: number[];
  readonly isPolled: boolean;
}

/** The world of a replica: its calls stand in line before the one server (2), and those for the org's key are noted. */
function seen(world: World, { net, process, server, asksMs, isPolled }: Seat): World {
  const { timeline } = net;
  const { serviceMs } = server;
  const inLine = async <T>(call: () => Promise<T>): Promise<T> => {
    const aheadMs = server.take(timeline.nowMs) - serviceMs;
    // Who is served at once waits for nobody; what his own turn takes is part of the way there and back.
    if (aheadMs > 0) await new Promise<void>((resolve) => process.after(aheadMs, resolve));
    return call();
  };
  const slow = (store: Store): Partial<Store> => ({
    load: (table, id) => inLine(() => store.load(table, id)),
    counts: (group, limit) => inLine(() => store.counts(group, limit)),
    commit: (change) => {
      if (!isPolled && asksForSlot(change)) asksMs.push(timeline.nowMs);
      return inLine(() => store.commit(change));
    },
  });
  const counted = withLocks((locks) => ({
    acquire: (request) => {
      if (isPolled && request.key === KEY) asksMs.push(timeline.nowMs);
      return inLine(() => locks.acquire(request));
    },
  }));
  return counted(withStore(slow)(world));
}

function asksForSlot({ guards }: Change): boolean {
  return guards.some(
    (guard) => guard.kind === "counter" && guard.counter.group === RUNS_GROUP && guard.counter.name === ORG,
  );
}

/** Counted from the records themselves, at every commit. */
function watchOpen(net: SimNet): { openMax(): number } {
  const open = new Set<string>();
  let most = 0;
  net.store.tap(({ puts }) => {
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

const KEY = admissionLockOf(ORG);
const SETTLE_MS = 500;
const LIMIT_MS = 24 * 3_600_000;
