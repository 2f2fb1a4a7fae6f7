import type { Msg } from "@nats-io/nats-core";
import { describeError, type NatsFailure, refused, unavailable } from "./errors.ts";

/** What the stream says to a publish: null if it has the message. */
export function failureOfAck(message: Msg): NatsFailure | null {
  if (message.data.length === 0) {
    const status = message.headers?.status ?? "an empty answer";
    return unavailable(`no stream holds the subject, or it has no leader (${status}): see \`nats stream ls\``);
  }
  let ack: { readonly error?: AckError; readonly seq?: unknown; readonly duplicate?: unknown };
  try {
    ack = JSON.parse(message.string());
  } catch (error) {
    return unavailable(`the stream's confirmation cannot be read: ${describeError(error)}`);
  }
  if (ack.error !== undefined) return failureOf(ack.error);
  // The stream had it before. It says so with the number 0 where nobody had to read it any more.
  if (ack.duplicate === true) return null;
  // An error confirmation carries the number 0, too; whatever has no number is no confirmation.
  if (typeof ack.seq !== "number" || ack.seq <= 0) return unavailable("the stream's confirmation has no number");
  return null;
}

interface AckError {
  readonly code?: number;
  readonly err_code?: number;
  readonly description?: string;
}

/** "maximum bytes exceeded", "maximum messages exceeded", "insufficient resources", "store failed". */
const FULL = new Set([10_023, 10_025, 10_028, 10_047, 10_077]);

/** "message size exceeds maximum allowed": the stream is as it was made, and is opened once its consumers are there. */
const NOT_OPEN = 10_054;

function failureOf({ code = 0, err_code: detail = 0, description = "no reason given" }: AckError): NatsFailure {
  const why = description.toLowerCase();
  if (FULL.has(detail) || /maximum (bytes|messages) exceeded/.test(why)) {
    return unavailable(`the stream is full (${why}): it takes nothing until its consumers catch up or its limits grow`);
  }
  if (detail === NOT_OPEN) return unavailable("the stream is not open yet: its consumers are being made");
  if (code >= 500) return unavailable(`the stream could not store the message: ${why}`);
  return refused(`the stream refused the message: ${why}`);
}
