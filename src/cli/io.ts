/** The process environment of a command: streams, environment variables and time. */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { terminalJson } from "../core/model/json.ts";

export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** stdout: data. */
  out(text: string): void;
  /** stderr: diagnostics. */
  err(text: string): void;
  /** Whether stderr is a terminal; progress and color require it. */
  readonly isInteractive: boolean;
  readonly color: boolean;
  /** The terminal on stdout, if it supports cursor movement; null or absent for pipes and files. */
  screen?(): Screen | null;
  readStdin(): string;
  /** How the program was invoked; used in suggested commands. */
  readonly command: "cordum" | "npx cordum";
  /** The command line that starts another process of this program; absent in tests. */
  readonly executable?: readonly string[];
  nowMs(): number;
  sleep(delayMs: number): Promise<void>;
}

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
}

export function processIo(): Io {
  // `cordum job list | head` closes the pipe early.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  const isInteractive = process.stderr.isTTY === true;
  return {
    env: process.env,
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    isInteractive,
    color: isInteractive && (process.env.NO_COLOR ?? "") === "",
    screen: () => screenOf(process.stdout, process.env),
    readStdin: () => readFileSync(0, "utf8"),
    // Set by npm for `npx cordum` and `npm start`.
    command: process.env.npm_command === undefined ? "cordum" : "npx cordum",
    executable: [process.execPath, ...process.execArgv, process.argv[1] ?? ""],
    nowMs: () => Date.now(),
    sleep: (delayMs) => sleep(delayMs),
  };
}

/** Read on every call, because the window size may change. Dumb terminals cannot move the cursor. */
function screenOf({ isTTY, columns, rows }: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Screen | null {
  if (!isTTY || env.TERM === "dumb") return null;
  return { columns: columns || 80, rows: rows || 24, color: (env.NO_COLOR ?? "") === "" };
}

export function printJson(io: Io, document: unknown): void {
  io.out(`${terminalJson(document, 2)}\n`);
}

/** A progress line on stderr, rewritten in place; silent unless stderr is a terminal. */
export class ProgressLine {
  readonly #io: Io;
  readonly #startedMs: number;
  #length = 0;

  constructor(io: Io) {
    this.#io = io;
    this.#startedMs = io.nowMs();
  }

  /** Does nothing within the first second. */
  show(text: string): void {
    if (!this.#io.isInteractive || this.#io.nowMs() - this.#startedMs < SHOW_AFTER_MS) return;
    this.#io.err(`\r${text.padEnd(this.#length)}\r`);
    this.#length = text.length;
  }

  /** Must be called before other output and at the end. */
  clear(): void {
    if (this.#length > 0) this.#io.err(`\r${" ".repeat(this.#length)}\r`);
    this.#length = 0;
  }
}

const SHOW_AFTER_MS = 1_000;
