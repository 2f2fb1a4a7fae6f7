import type { Msg } from "@nats-io/nats-core";
import { describeError, type NatsFailure, refused, unavailable } from "./errors.ts";

/** Reads the stream's reply to a publish. Null if the stream has stored the message. */
export function readPublishAck(message: Msg): NatsFailure | null {
  if (message.data.length === 0) {
    const status = message.headers?.status ?? "empty reply";
    return unavailable(`no stream for the subject, or no leader (${status}): check \`nats stream ls\``);
  }
  let ack: { readonly error?: AckError; readonly seq?: unknown; readonly duplicate?: unknown };
  try {
    ack = JSON.parse(message.string());
  } catch (error) {
    return unavailable(`invalid publish ack: ${describeError(error)}`);
  }
  if (ack.error !== undefined) return failureOf(ack.error);
  // A duplicate has sequence 0 if the stored message was already removed.
  if (ack.duplicate === true) return null;
  // Error acks also carry sequence 0.
  if (typeof ack.seq !== "number" || ack.seq <= 0) return unavailable("invalid publish ack: no sequence number");
  return null;
}

interface AckError {
  readonly code?: number;
  readonly err_code?: number;
  readonly description?: string;
}

/** "maximum bytes exceeded", "maximum messages exceeded", "insufficient resources", "store failed". */
const FULL = new Set([10_023, 10_025, 10_028, 10_047, 10_077]);

/** "message size exceeds maximum allowed": the stream is closed until its consumers exist (see `stream.ts`). */
const NOT_OPEN = 10_054;

function failureOf({ code = 0, err_code: detail = 0, description = "no reason given" }: AckError): NatsFailure {
  const reason = description.toLowerCase();
  if (FULL.has(detail) || /maximum (bytes|messages) exceeded/.test(reason)) {
    return unavailable(`stream full (${reason}): wait for its consumers, or raise its limits`);
  }
  if (detail === NOT_OPEN) return unavailable("stream not open yet: its consumers are being created");
  if (code >= 500) return unavailable(`the stream could not store the message: ${reason}`);
  return refused(`the stream rejected the message: ${reason}`);
}
