import type { Placement, Table } from "../../core/model/table.ts";
import { permanent, retryAfter } from "../../core/retry/intent.ts";
import { deliverTo, type MessageHandler } from "../../engine/delivery/index.ts";
import type { Engine } from "../../engine/engine.ts";
import { withLock } from "../../engine/with-lock.ts";
import type { Message, Stop } from "../../ports/bus.ts";
import { NOWHERE, type Put } from "../../ports/store.ts";
import type { Packet } from "../../protocol/packet.ts";
import type { TallyOrder } from "./plan.ts";

/**
 * A counter workload under a lock: each message increments a shared record. Between read and write a process may stall for
 * longer than its lease, ignores the lease's signal, and writes without a version, so only the fence prevents lost updates.
 *
 * The fence is raised before the read. With a fence on the write alone, a write of the old holder between the new holder's
 * read and write would be accepted and then overwritten.
 */
export interface Tally {
  readonly count: number;
  /** The ids of the counted messages, for deduplication. */
  readonly applied: readonly string[];
  readonly fence: number;
}

export const TALLIES: Table<Tally> = { name: "sim_tally", placement: (): Placement => NOWHERE };
export const TALLY_SUBJECT = "sim.tally";
const TALLY_GROUP = "sim-tally";
const TALLY_ORG = "default";
/** Short, so that a stalled process loses the lock. */
export const TALLY_TTL_MS = 1_500;

export const tallyLock = (record: string): string => `sim:tally:${record}`;

export function tallyMessage(order: TallyOrder): Message {
  const { id, record, behavior } = order;
  const details = { id, record, behavior, workMs: String(order.workMs) };
  return {
    id,
    subject: TALLY_SUBJECT,
    packet: {
      traceId: id,
      senderId: "tally-client",
      createdAtMs: 0,
      body: { kind: "alert", level: "info", message: "count this", details },
    },
  };
}

export interface TallyHooks {
  /** Called before the handler throws an unclassified error. */
  onPlainError(id: string): void;
  /** Called between read and write, to inject a pause. */
  onRead(id: string): void;
}

export function startTally(engine: Engine, hooks: TallyHooks): Promise<Stop> {
  const messageHandler: MessageHandler = {
    name: "tally",
    about: () => "",
    handle: (packet) => countUnderLock(engine, packet, hooks),
  };
  return engine.world.bus.consume(TALLY_SUBJECT, TALLY_GROUP, deliverTo(engine, messageHandler));
}

async function countUnderLock(engine: Engine, packet: Packet, hooks: TallyHooks): Promise<void> {
  const { clock, random, store } = engine.world;
  if (packet.body.kind !== "alert") throw permanent(new Error(`expected an alert, got a ${packet.body.kind}`));
  const { record = "", workMs = "0", behavior, id = "" } = packet.body.details ?? {};
  if (behavior === "refused") throw permanent(new Error("permanently refused"));
  if (behavior === "doomed" || (behavior === "flaky" && random.next() < 0.5)) {
    hooks.onPlainError(id);
    throw new Error("unclassified failure");
  }
  const request = { key: tallyLock(record), org: TALLY_ORG, ttlMs: TALLY_TTL_MS, waitMs: 500, path: "tally" };
  await withLock(engine, request, async ({ fence }) => {
    await write(engine, record, fence, []);
    const found = await store.load(TALLIES, record);
    const before = found?.value ?? { count: 0, applied: [], fence: 0 };
    if (before.applied.includes(id)) return;
    hooks.onRead(id);
    await new Promise<void>((resolve) => clock.after(Number(workMs), resolve));
    const value: Tally = { count: before.count + 1, applied: [...before.applied, id], fence };
    await write(engine, record, fence, [
      { table: TALLIES.name, id: record, value, expect: null, from: NOWHERE, to: NOWHERE },
    ]);
  });
}

/** Guarded by the fence only. Without puts it just raises the fence. */
async function write(engine: Engine, record: string, fence: number, puts: readonly Put[]): Promise<void> {
  const committed = await engine.world.store.commit({
    org: TALLY_ORG,
    atMs: engine.world.clock.now(),
    puts,
    guards: [{ kind: "fence", table: TALLIES.name, id: record, fence }],
    sends: [],
    watch: [],
  });
  if (committed.kind !== "committed") throw retryAfter(new Error("the lock has another holder"), 100, "lock_busy");
}
