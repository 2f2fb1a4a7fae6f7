import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { PARKED, type Parked } from "../../core/model/parked-message.ts";
import type { DeliveryOutcome } from "../../core/retry/bus-action.ts";
import type { Delivery, Message } from "../../ports/bus.ts";
import { put, type Versioned } from "../../ports/store.ts";
import { fromBase64, toBase64 } from "../../protocol/base64.ts";
import { decodePacket, encodePacket, restorePacket } from "../../protocol/codec.ts";
import type { Needs } from "../engine.ts";

/**
 * Parks a message: it is written to the store with its due time, then acknowledged, so that it does not occupy the
 * broker's ack window.
 *
 * 1. It returns as a new message, in the commit that removes it from the store: neither lost nor duplicated.
 * 2. It returns at its own due time, so that the jitter of its policy is kept.
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
    // Stale: this delivery was parked before, and its ack was lost.
    await engine.commit({ org: DEFAULT_ORG, puts: [put(PARKED, `${delivery.subject}/${delivery.id}`, null, parked)] });
    return true;
  } catch (error) {
    engine.world.log.write("warn", "park_failed", { message: delivery.id, error: String(error) });
    return false;
  }
}

/** Timer handler of parked messages: removes the record and publishes the message in one commit. */
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

/** The id before the first redelivery. */
export const originalId = (messageId: string): string => messageId.replace(COMEBACK, "");

/** A redelivered message needs a new id; the broker would drop the old one as a duplicate. */
export const redeliveryId = (messageId: string, atMs: number): string => `${originalId(messageId)}~~back${atMs}`;

/** A suffix that only this module appends. Ids of other messages contain job ids, which never have `~~`. */
const COMEBACK = /~~back\d+$/;
