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
 * A workload that uses locks as they are meant to be used: messages ask processes to change a shared record under a
 * lock. Between reading and writing a process may stall for longer than its lease, and it looks at no signal; the write
 * carries no version. So nothing but the fence keeps a late writer from undoing what others did.
 *
 * The fence is raised before the record is read. A fence on the write alone is not enough: an old holder's write that
 * comes between the new holder's reading and writing would be taken, and then be overwritten.
 */
export interface Tally {
  readonly count: number;
  /** The requests that were counted; one that comes again is known by it. */
  readonly applied: readonly string[];
  readonly fence: number;
}

export const TALLIES: Table<Tally> = { name: "sim_tally", placement: (): Placement => NOWHERE };
export const TALLY_SUBJECT = "sim.tally";
const TALLY_GROUP = "sim-tally";
const TALLY_ORG = "default";
/** Short, so that a stalled process soon loses it. */
export const TALLY_TTL_MS = 1_500;

export const tallyLock = (record: string): string => `sim:tally:${record}`;

export function tallyMessage(order: TallyOrder): Message {
  const details = { record: order.record, thinkMs: String(order.thinkMs), mood: order.mood, id: order.id };
  return {
    id: order.id,
    subject: TALLY_SUBJECT,
    packet: {
      traceId: order.id,
      senderId: "tally-client",
      createdAtMs: 0,
      body: { kind: "alert", level: "info", message: "count this", details },
    },
  };
}

export interface TallyHooks {
  /** The handler is about to throw an error that states nothing. */
  onPlainError(id: string): void;
  /** The handler has read and thinks; a fault may strike the process now. */
  onThink(id: string): void;
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
  const { record = "", thinkMs = "0", mood, id = "" } = packet.body.details ?? {};
  if (mood === "refused") throw permanent(new Error("refused for good"));
  if (mood === "doomed" || (mood === "flaky" && random.next() < 0.5)) {
    hooks.onPlainError(id);
    throw new Error("failed, and nobody says why");
  }
  const request = { key: tallyLock(record), org: TALLY_ORG, ttlMs: TALLY_TTL_MS, waitMs: 500, path: "tally" };
  await withLock(engine, request, async ({ fence }) => {
    await write(engine, record, fence, []);
    const found = await store.load(TALLIES, record);
    const before = found?.value ?? { count: 0, applied: [], fence: 0 };
    if (before.applied.includes(id)) return;
    hooks.onThink(id);
    await new Promise<void>((resolve) => clock.after(Number(thinkMs), resolve));
    const value: Tally = { count: before.count + 1, applied: [...before.applied, id], fence };
    await write(engine, record, fence, [
      { table: TALLIES.name, id: record, value, expect: null, from: NOWHERE, to: NOWHERE },
    ]);
  });
}

/** With the fence alone; without puts it only raises the fence. */
async function write(engine: Engine, record: string, fence: number, puts: readonly Put[]): Promise<void> {
  const committed = await engine.world.store.commit({
    org: TALLY_ORG,
    atMs: engine.world.clock.now(),
    puts,
    guards: [{ kind: "fence", table: TALLIES.name, id: record, fence }],
    sends: [],
    watch: [],
  });
  if (committed.kind !== "committed") throw retryAfter(new Error("somebody else has the lock now"), 100, "lock_busy");
}
