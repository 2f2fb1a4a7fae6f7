import type { Msg } from "@nats-io/nats-core";
import { decodeFrame, type FrameItem, isFrame } from "../../protocol/frame.ts";
import type { Packet } from "../../protocol/packet.ts";

/**
 * A message on a pull inbox: a stream message, or a status of the pull request.
 *
 * A packet of a frame that needs redelivery is published again on its own, with these headers:
 *   `Cordum-Id`        the original message id; the id of the new message also contains the attempt
 *   `Cordum-Attempt`   the number of earlier deliveries
 *   `Cordum-Group`     the consumer group it failed in; the other groups skip it
 *   `Cordum-Delay-Ms`  redelivery delay: the first delivery is nak'ed with this delay and reaches no handler. It is a
 *                      duration, so clocks need not be synchronized.
 */
export type Arrival =
  | { readonly kind: "status"; readonly code: number; readonly text: string; readonly left: number | null }
  | { readonly kind: "packets"; readonly reply: string; readonly attempt: number; readonly items: readonly Arrived[] }
  | { readonly kind: "delayed"; readonly reply: string; readonly delayMs: number }
  | { readonly kind: "otherGroup"; readonly reply: string };

export interface Arrived extends FrameItem {
  /** Trace context from a header, as third-party workers send it. */
  readonly traceparent?: string;
}

/** Adds the trace context of the message header to a packet that has none. */
export function withTraceHeader(packet: Packet, traceparent: string | undefined): Packet {
  return traceparent && packet.traceparent === undefined ? { ...packet, traceparent } : packet;
}

export interface Redelivery {
  readonly id: string;
  readonly attempt: number;
  readonly group: string;
  readonly delayMs: number;
}

export const redeliveryHeaders = ({ id, attempt, group, delayMs }: Redelivery): Record<string, string> => ({
  "Cordum-Id": encodeURIComponent(id),
  "Cordum-Attempt": String(attempt),
  "Cordum-Group": group,
  ...(delayMs > 0 ? { "Cordum-Delay-Ms": String(Math.ceil(delayMs)) } : {}),
});

export function readArrival(message: Msg, group: string): Arrival {
  // Only stream messages have an ack subject as `reply`, which is an empty string if absent.
  const reply = message.reply ?? "";
  if (!reply.startsWith("$JS.ACK.")) return readStatus(message);
  const tokens = reply.split(".");
  // The ack subject has two more tokens, domain and account, on newer servers.
  const at = tokens.length > 9 ? 6 : 4;
  const deliveries = Number(tokens[at]);
  const data = message.data;
  if (isFrame(data)) {
    const items = frameItems(data);
    // Frames have no redelivery headers.
    if (items !== null) return { kind: "packets", reply, attempt: deliveries, items };
  }
  const fields = message.headers;
  const redeliveryGroup = fields?.get("Cordum-Group") ?? "";
  if (redeliveryGroup === "") {
    const id = fields?.get("Nats-Msg-Id") || `${tokens[at - 2]}:${tokens[at + 1]}`;
    const traceparent = fields?.get("traceparent");
    const item: Arrived = traceparent ? { id, bytes: data, traceparent } : { id, bytes: data };
    return { kind: "packets", reply, attempt: deliveries, items: [item] };
  }
  if (redeliveryGroup !== group) return { kind: "otherGroup", reply };
  const delayMs = Number(fields?.get("Cordum-Delay-Ms") ?? 0);
  if (delayMs > 0 && deliveries === 1) return { kind: "delayed", reply, delayMs };
  const before = Number(fields?.get("Cordum-Attempt")) || 0;
  const attempt = before + deliveries - (delayMs > 0 ? 1 : 0);
  const id = decoded(fields?.get("Cordum-Id") ?? "");
  return { kind: "packets", reply, attempt, items: [{ id, bytes: data }] };
}

function readStatus(message: Msg): Arrival {
  const fields = message.headers;
  const left = fields?.get("Nats-Pending-Messages") ?? "";
  return {
    kind: "status",
    code: fields?.code ?? 0,
    text: fields?.description ?? "",
    left: left === "" ? null : Number(left),
  };
}

/** Any client can set headers: invalid encodings are used as they are. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Null for a damaged frame, which is delivered whole as `undecodable`. */
function frameItems(bytes: Uint8Array): readonly FrameItem[] | null {
  try {
    return decodeFrame(bytes);
  } catch {
    return null;
  }
}
