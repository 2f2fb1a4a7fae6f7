/**
 * A failed NATS request.
 *
 * 1. `BUS_UNAVAILABLE`: not connected, timeout, no leader or stream full. The outcome is unknown; a retry makes sense.
 * 2. `BUS_REFUSED`: the server rejected the request: a bug or a wrong setting.
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

/** Checks by shape, so wrapped errors match too. */
export function isUnavailable(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "BUS_UNAVAILABLE";
}

export const describeError = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).toLowerCase();
