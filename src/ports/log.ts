/**
 * What operators read. Events by name, facts as fields; never a payload, never a secret.
 * A log call cannot fail and is never awaited.
 */
export interface Log {
  write(level: LogLevel, event: string, fields?: LogFields): void;
}

export type LogLevel = "debug" | "info" | "warn" | "error";
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
