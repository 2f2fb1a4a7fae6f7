/** What a command may touch of the process around it: data to stdout, talk to stderr, time. */
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Data, for programs and people. */
  out(text: string): void;
  /** Talk, for people. */
  err(text: string): void;
  /** Whether somebody is watching the talk: only then is there progress and color. */
  readonly isInteractive: boolean;
  readonly color: boolean;
  /** Where the data goes, if that is a terminal that can be drawn on; null or absent for pipes and files. */
  screen?(): Screen | null;
  readStdin(): string;
  /** How the program was called, so that the commands we name can be typed as they stand. */
  readonly command: "cordum" | "npx cordum";
  /** How to start this very program again, as a process of its own; absent where it is not a program. */
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
  // The reader of a pipe may have seen enough (`cordum job list | head`): that is no error of ours.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  const watched = process.stderr.isTTY === true;
  return {
    env: process.env,
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    isInteractive: watched,
    color: watched && (process.env.NO_COLOR ?? "") === "",
    screen: () => screenOf(process.stdout, process.env),
    readStdin: () => readFileSync(0, "utf8"),
    // Set by npm for whatever it starts: `npx cordum`, `npm start`.
    command: process.env.npm_command === undefined ? "cordum" : "npx cordum",
    executable: [process.execPath, ...process.execArgv, process.argv[1] ?? ""],
    nowMs: () => Date.now(),
    sleep: (delayMs) => sleep(delayMs),
  };
}

/** Asked every time: people change the size of their windows. A dumb terminal cannot move its cursor. */
function screenOf({ isTTY, columns, rows }: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Screen | null {
  if (!isTTY || env.TERM === "dumb") return null;
  return { columns: columns || 80, rows: rows || 24, color: (env.NO_COLOR ?? "") === "" };
}

export function printJson(io: Io, document: unknown): void {
  io.out(`${JSON.stringify(document, null, 2)}\n`);
}

/** A line that is written over and over, for whoever watches; nothing at all for others. */
export class ProgressLine {
  readonly #io: Io;
  readonly #startedMs: number;
  #length = 0;

  constructor(io: Io) {
    this.#io = io;
    this.#startedMs = io.nowMs();
  }

  /** What takes less than a second needs none. */
  show(text: string): void {
    if (!this.#io.isInteractive || this.#io.nowMs() - this.#startedMs < SHOWN_AFTER_MS) return;
    this.#io.err(`\r${text.padEnd(this.#length)}\r`);
    this.#length = text.length;
  }

  /** Before anything else is said, and at the end. */
  clear(): void {
    if (this.#length > 0) this.#io.err(`\r${" ".repeat(this.#length)}\r`);
    this.#length = 0;
  }
}

const SHOWN_AFTER_MS = 1_000;
