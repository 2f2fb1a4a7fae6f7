import type { Msg } from "@nats-io/nats-core";
import { decodeFrame, type FrameItem, isFrame } from "../../protocol/frame.ts";
import type { Packet } from "../../protocol/packet.ts";

/**
 * What arrives on a pull's inbox, made sense of: a message of the stream, or a word of the server about the pull.
 *
 * A packet that failed inside a frame is published again alone, with a note in its headers:
 *   `Cordum-Id`        the id it was published under; the message's own id has the attempt in it
 *   `Cordum-Attempt`   how often it was delivered before
 *   `Cordum-Group`     the group it failed in; the other groups have it already
 *   `Cordum-Delay-Ms`  how long its next delivery waits: its first arrival is handed back to the broker with this delay
 *                      and never reaches a handler. A duration, not a time of day: no two clocks need to agree.
 */
export type Arrival =
  | { readonly kind: "status"; readonly code: number; readonly text: string; readonly left: number | null }
  | { readonly kind: "packets"; readonly reply: string; readonly attempt: number; readonly items: readonly Arrived[] }
  | { readonly kind: "hold"; readonly reply: string; readonly delayMs: number }
  | { readonly kind: "elsewhere"; readonly reply: string };

export interface Arrived extends FrameItem {
  /** The trace context that a worker of others sends as a header. */
  readonly traceparent?: string;
}

/** A packet with the trace context that came beside it, if it has none in it. */
export function traced(packet: Packet, traceparent: string | undefined): Packet {
  return traceparent && packet.traceparent === undefined ? { ...packet, traceparent } : packet;
}

export interface Note {
  readonly id: string;
  readonly attempt: number;
  readonly group: string;
  readonly delayMs: number;
}

export const noteHeaders = ({ id, attempt, group, delayMs }: Note): Record<string, string> => ({
  "Cordum-Id": encodeURIComponent(id),
  "Cordum-Attempt": String(attempt),
  "Cordum-Group": group,
  ...(delayMs > 0 ? { "Cordum-Delay-Ms": String(Math.ceil(delayMs)) } : {}),
});

export function readArrival(message: Msg, group: string): Arrival {
  // Only messages of the stream ask for an acknowledgement. (`reply` is empty text at runtime where there is none.)
  const reply = message.reply ?? "";
  if (!reply.startsWith("$JS.ACK.")) return readStatus(message);
  const tokens = reply.split(".");
  // With a domain and an account in front of the stream's name, or without.
  const at = tokens.length > 9 ? 6 : 4;
  const deliveries = Number(tokens[at]);
  const data = message.data;
  if (isFrame(data)) {
    const items = frameItems(data);
    // A frame never has a note, so its headers need not be read.
    if (items !== null) return { kind: "packets", reply, attempt: deliveries, items };
  }
  const fields = message.headers;
  const noted = fields?.get("Cordum-Group") ?? "";
  if (noted === "") {
    const id = fields?.get("Nats-Msg-Id") || `${tokens[at - 2]}:${tokens[at + 1]}`;
    const traceparent = fields?.get("traceparent");
    const item: Arrived = traceparent ? { id, bytes: data, traceparent } : { id, bytes: data };
    return { kind: "packets", reply, attempt: deliveries, items: [item] };
  }
  if (noted !== group) return { kind: "elsewhere", reply };
  const delayMs = Number(fields?.get("Cordum-Delay-Ms") ?? 0);
  if (delayMs > 0 && deliveries === 1) return { kind: "hold", reply, delayMs };
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

/** Headers are anybody's: what does not decode stands for itself. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Null for a damaged frame: it is handed on as a whole, as bytes that cannot be read. */
function frameItems(bytes: Uint8Array): readonly FrameItem[] | null {
  try {
    return decodeFrame(bytes);
  } catch {
    return null;
  }
}
