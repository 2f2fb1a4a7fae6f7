/**
 * Structured log: an event name and fields. Payloads and secrets must not be logged.
 * `write` never throws and is not awaited.
 */
export interface Log {
  write(level: LogLevel, event: string, fields?: LogFields): void;
}

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
