/**
 * A failed Redis command.
 *
 * 1. `STORE_UNAVAILABLE`: no reply, or the server is not in a state to answer (connection lost, timeout, loading, read
 *    only, out of memory). The outcome is unknown; a retry makes sense.
 * 2. `STORE_REFUSED`: the server rejected the command: a bug or a wrong setting.
 * 3. Errors carry no arguments: these contain user payloads, and errors are logged.
 */
export class RedisFailure extends Error {
  override readonly name = "RedisFailure";
  readonly code: "STORE_UNAVAILABLE" | "STORE_REFUSED";

  constructor(code: RedisFailure["code"], message: string, cause?: Error) {
    super(message, { cause });
    this.code = code;
  }
}

/** Checks by shape, so wrapped errors match too. */
export function isUnavailable(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "STORE_UNAVAILABLE";
}

export function failureOf(thrown: unknown): RedisFailure {
  if (thrown instanceof RedisFailure) return thrown;
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  delete (error as { command?: unknown }).command;
  const isAnswer = error.name === "ReplyError";
  if (isSchemaRefused(error)) {
    return new RedisFailure("STORE_UNAVAILABLE", "redis unavailable: the schema of its data differs", error);
  }
  if (!isAnswer || TRANSIENT.has(error.message.split(" ", 1)[0]!)) {
    return new RedisFailure("STORE_UNAVAILABLE", `redis unavailable: ${describe(error)}`, error);
  }
  return new RedisFailure("STORE_REFUSED", `redis rejected the command: ${error.message}`, error);
}

/** A record that exists but is damaged or has an unknown format. It is never treated as absent. */
export function unreadable(key: string, why: string): RedisFailure {
  const next = "restore the key from a backup, or delete it if its loss is acceptable";
  return new RedisFailure("STORE_REFUSED", `record \`${key}\` in redis cannot be read (${why}): ${next}`);
}

export const isScriptUnknown = (error: unknown): boolean => isReply(error, "NOSCRIPT");

/** The script found another schema and did nothing. */
export const isSchemaRefused = (error: unknown): boolean => isReply(error, "SCHEMA");

const isReply = (error: unknown, code: string): boolean =>
  error instanceof Error && error.name === "ReplyError" && error.message.startsWith(`${code} `);

/** Error replies about the state of the server, not about the command. */
const TRANSIENT = new Set([
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

function describe(error: Error): string {
  if (error.message.includes("enableOfflineQueue")) return "not connected";
  if (error.message.includes("max retries per request")) return "connection lost";
  return error.message.toLowerCase();
}
