/**
 * What can go wrong between us and NATS, in our own words.
 *
 * 1. No answer (not connected, timed out, no leader, stream full) is `BUS_UNAVAILABLE`: whether the message was taken is
 *    not known, and it makes sense to try again.
 * 2. An answer that says "no" to what we asked is a bug of ours or a wrong setting: `BUS_REFUSED`.
 */
export class NatsFailure extends Error {
  override readonly name = "NatsFailure";
  readonly code: "BUS_UNAVAILABLE" | "BUS_REFUSED";

  constructor(code: NatsFailure["code"], message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

export const unavailable = (message: string, cause?: unknown): NatsFailure =>
  new NatsFailure("BUS_UNAVAILABLE", message, cause);

export const refused = (message: string, cause?: unknown): NatsFailure =>
  new NatsFailure("BUS_REFUSED", message, cause);

/** By shape, so that it also knows errors that were wrapped elsewhere. */
export function isUnavailable(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "BUS_UNAVAILABLE";
}

export const describeError = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).toLowerCase();
