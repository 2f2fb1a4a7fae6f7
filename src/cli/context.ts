/** Shared by the command modules: the context of an invocation, command builders and flag parsers. */
import { type Command, InvalidArgumentError } from "commander";
import { parseDuration } from "../core/retry/duration.ts";
import { type Client, openClient } from "./client.ts";
import type { ExitCode } from "./exit.ts";
import type { Io } from "./io.ts";

export interface CommandContext {
  readonly io: Io;
  readonly version: string;
  /** Opened on demand: not every command needs a control plane. */
  client(): Client;
  exit(exitCode: ExitCode): void;
}

export function newContext(io: Io, version: string, exit: (exitCode: ExitCode) => void): CommandContext {
  return { io, version, client: () => openClient(io), exit };
}

export function addGroup(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).helpCommand(false);
}

export function addCommand(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).option("--json", "print one JSON document");
}

export function addListCommand(parent: Command, name: string, description: string): Command {
  return addCommand(parent, name, description)
    .option("--limit <n>", "page size, 1 to 200", whole)
    .option("--cursor <cursor>", "cursor printed after the previous page");
}

export function whole(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("must be a whole number.");
}

export function durationUpTo(msMax: number, msMin = 1): (text: string) => number {
  return (text) => {
    try {
      return parseDuration(text, { msMin, msMax });
    } catch (error) {
      throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
    }
  };
}

export function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text];
}

export function pair(text: string, before: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("must have the form key=value.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}
