import { deliver, type Station } from "../flow/deliver.ts";
import type { Flow } from "../flow/flow.ts";
import { withLock } from "../flow/with-lock.ts";
import type { Placement, Table } from "../model/table.ts";
import type { Message } from "../ports/bus.ts";
import { NOWHERE } from "../ports/store.ts";
import { permanent, retryAfter } from "../retry/contract.ts";
import type { Packet } from "../wire/packet.ts";
import type { TallyOrder } from "./plan.ts";

/**
 * A workload that uses locks as they are meant to be used: messages ask processes to change a shared record under a
 * lock. Between reading and writing a process may stall for longer than its lease, and it looks at no signal; the write
 * carries no version. So nothing but the fence keeps a late writer from undoing what others did.
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

export async function startTally(flow: Flow, onPlainError: (id: string) => void): Promise<void> {
  const station: Station = {
    name: "tally",
    about: () => "",
    handle: (at, packet) => countUnderLock(at, packet, onPlainError),
  };
  await flow.world.bus.consume(TALLY_SUBJECT, TALLY_GROUP, deliver(flow, station));
}

async function countUnderLock(flow: Flow, packet: Packet, onPlainError: (id: string) => void): Promise<void> {
  const { clock, random, store } = flow.world;
  if (packet.body.kind !== "alert") throw permanent(new Error(`expected an alert, got a ${packet.body.kind}`));
  const { record = "", thinkMs = "0", mood, id = "" } = packet.body.details ?? {};
  if (mood === "refused") throw permanent(new Error("refused for good"));
  if (mood === "doomed" || (mood === "flaky" && random.next() < 0.5)) {
    onPlainError(id);
    throw new Error("failed, and nobody says why");
  }
  const { lockTtlMs } = flow.settings.current.job;
  const wish = { key: `sim:tally:${record}`, org: TALLY_ORG, ttlMs: lockTtlMs, waitMs: 500, path: "tally" };
  await withLock(flow, wish, async ({ fence }) => {
    const found = await store.load(TALLIES, record);
    const before = found?.value ?? { count: 0, applied: [], fence: 0 };
    if (before.applied.includes(id)) return;
    await new Promise<void>((resolve) => clock.after(Number(thinkMs), resolve));
    const value: Tally = { count: before.count + 1, applied: [...before.applied, id], fence };
    const committed = await store.commit({
      org: TALLY_ORG,
      atMs: clock.now(),
      puts: [{ table: TALLIES.name, id: record, value, expect: null, from: NOWHERE, to: NOWHERE }],
      guards: [{ kind: "fence", table: TALLIES.name, id: record, fence }],
      sends: [],
      watch: [],
    });
    if (committed.kind !== "committed") throw retryAfter(new Error("somebody has the lock now"), 100, "lock_busy");
  });
}
