import { DEFAULT_ORG } from "../../core/jobs/submission.ts";
import { PARKED, type Parked } from "../../core/model/parked-message.ts";
import type { DeliveryOutcome } from "../../core/retry/bus-action.ts";
import type { Delivery, Message } from "../../ports/bus.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { fromBase64, toBase64 } from "../../protocol/base64.ts";
import { decodePacket, encodePacket, restorePacket } from "../../protocol/codec.ts";
import type { Needs } from "../engine.ts";

/**
 * Long waits leave the broker: the message is written to the store with its time, then acknowledged.
 *
 * 1. It comes back as a message of its own, in the commit that removes it from the store: neither lost nor doubled.
 * 2. It comes back at its own time (see the sweeper), so that the spread which its policy gave is kept.
 */
export async function parkMessage(
  engine: Needs<"world" | "commit">,
  delivery: Delivery,
  outcome: DeliveryOutcome,
  reason: string,
  delayMs: number,
): Promise<boolean> {
  if (delivery.content.kind !== "packet" || outcome.kind !== "retryable") return false;
  const parkedMs = engine.world.clock.now();
  const parked: Parked = {
    subject: delivery.subject,
    messageId: originalId(delivery.id),
    base64: toBase64(encodePacket(delivery.content.packet)),
    ...(delivery.content.packet.origin === undefined ? {} : { isVerbatim: true }),
    retryClass: outcome.retryClass,
    reason,
    parkedMs,
    dueMs: parkedMs + delayMs,
  };
  try {
    // Stale: this very delivery was parked before and its acknowledgement was lost.
    await engine.commit({ org: DEFAULT_ORG, puts: [put(PARKED, `${delivery.subject}/${delivery.id}`, null, parked)] });
    return true;
  } catch (error) {
    engine.world.log.write("warn", "park_failed", { message: delivery.id, error: String(error) });
    return false;
  }
}

/** The time has come: out of the store and onto the bus, in one commit. */
export async function unparkMessage(
  engine: Needs<"world" | "commit" | "arrivals">,
  found: Versioned<Parked>,
): Promise<void> {
  const { subject, messageId, base64, isVerbatim, dueMs } = found.value;
  const message: Message = {
    id: redeliveryId(messageId, dueMs),
    subject,
    packet: isVerbatim ? restorePacket(base64) : decodePacket(fromBase64(base64)),
  };
  const committed = await engine.commit({
    org: DEFAULT_ORG,
    puts: [put(PARKED, found.id, found, null)],
    sends: [message],
  });
  if (committed.kind === "committed") engine.arrivals.record(found.value.retryClass, engine.world.clock.now());
}

/** The id that a message had before it was parked for the first time. */
export const originalId = (messageId: string): string => messageId.replace(COMEBACK, "");

/** A message that comes back is a new one to the broker, or it would be dropped as known. */
export const redeliveryId = (messageId: string, atMs: number): string => `${originalId(messageId)}~back${atMs}`;

/** A suffix that only we write: ids of others may have anything in them. */
const COMEBACK = /~back\d+$/;
