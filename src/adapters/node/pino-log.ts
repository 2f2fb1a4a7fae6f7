import { pino } from "pino";
import { escapeControls, escapeJson, terminalJson } from "../../core/model/json.ts";
import { isSecretName, REDACTED, redactText } from "../../core/model/redact.ts";
import type { Log, LogFields, LogLevel } from "../../ports/log.ts";

export interface LogTarget {
  write(text: string): void;
}

/**
 * Logs JSON lines: `{"level":"warn","time":…,"name":…,"event":…, …}`. All fields are redacted, because errors of libraries
 * can contain secrets.
 */
export function pinoLog(options: { readonly level: LogLevel; readonly name: string; readonly target: LogTarget }): Log {
  const logger = pino(
    {
      level: options.level,
      base: { name: options.name },
      messageKey: "event",
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => options.target.write(escapeJson(line)) },
  );
  return {
    write(level: LogLevel, event: string, fields: LogFields = {}) {
      if (logger.isLevelEnabled(level)) logger[level](withoutSecrets(fields), redactText(event));
    },
  };
}

function withoutSecrets(fields: LogFields): LogFields {
  const clean: Record<string, LogFields[string]> = {};
  for (const [name, value] of Object.entries(fields)) {
    const isSecret = isSecretName(name) && typeof value !== "boolean" && value !== null && value !== undefined;
    clean[redactText(name)] = isSecret ? REDACTED : typeof value === "string" ? redactText(value) : value;
  }
  return clean;
}

/** Formats the lines for a terminal: `19:58:01 warn  backlog_drain_failed topic=demo.echo`. Control characters are escaped. */
export function forTerminal(target: LogTarget, options: { readonly color: boolean }): LogTarget {
  return {
    write(text) {
      for (const line of text.split("\n")) {
        if (line !== "") target.write(`${plain(line, options.color)}\n`);
      }
    },
  };
}

function plain(line: string, color: boolean): string {
  const { level, time, name: _, event, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const pairs = Object.entries(fields).map(
    ([key, value]) =>
      `${escapeControls(key)}=${typeof value === "string" ? escapeControls(value) : terminalJson(value)}`,
  );
  const clock = new Date(Number(time)).toTimeString().slice(0, 8);
  const label = String(level).padEnd(5);
  const code = COLORS[String(level)];
  return [
    clock,
    color && code ? `\u001b[${code}m${label}\u001b[0m` : label,
    escapeControls(String(event)),
    ...pairs,
  ].join(" ");
}

const COLORS: Readonly<Record<string, string>> = { debug: "2", warn: "33", error: "31" };
