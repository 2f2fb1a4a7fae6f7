/**
 * What can go wrong between us and Redis, in our own words.
 *
 * 1. No answer (connection lost, timed out, still loading, read only, out of memory) is `STORE_UNAVAILABLE`: whether
 *    the command was carried out is not known, and it makes sense to try again.
 * 2. An answer that says "no" to what we asked is a bug of ours or a wrong setting: `STORE_REFUSED`.
 * 3. The arguments never travel with the error: they are people's payloads, and errors end up in logs.
 */
export class RedisFailure extends Error {
  override readonly name = "RedisFailure";
  readonly code: "STORE_UNAVAILABLE" | "STORE_REFUSED";

  constructor(code: RedisFailure["code"], message: string, cause?: Error) {
    super(message, { cause });
    this.code = code;
  }
}

/** By shape, so that it also knows errors that were wrapped elsewhere. */
export function isUnavailable(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "STORE_UNAVAILABLE";
}

export function failureOf(thrown: unknown): RedisFailure {
  if (thrown instanceof RedisFailure) return thrown;
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  delete (error as { command?: unknown }).command;
  const isAnswer = error.name === "ReplyError";
  if (!isAnswer || PASSING.has(error.message.split(" ", 1)[0]!)) {
    return new RedisFailure("STORE_UNAVAILABLE", `redis does not answer: ${inWords(error)}`, error);
  }
  return new RedisFailure("STORE_REFUSED", `redis refused: ${error.message}`, error);
}

export const isScriptUnknown = (error: unknown): boolean =>
  error instanceof Error && error.name === "ReplyError" && error.message.startsWith("NOSCRIPT");

/** Answers that speak of the server's state, not of what was asked. */
const PASSING = new Set([
  "LOADING",
  "BUSY",
  "READONLY",
  "MASTERDOWN",
  "CLUSTERDOWN",
  "TRYAGAIN",
  "NOREPLICAS",
  "MISCONF",
  "OOM",
]);

function inWords(error: Error): string {
  if (error.message.includes("enableOfflineQueue")) return "not connected";
  if (error.message.includes("max retries per request")) return "connection lost";
  return error.message.toLowerCase();
}
