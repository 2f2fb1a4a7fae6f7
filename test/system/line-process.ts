/** Programs that a test follows by the lines they print. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export interface LineProgram {
  readonly command: string;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** Talks over lines: the program prints one line per step, and reads one line to continue. */
export class LineProcess {
  readonly child: ChildProcess;
  /** Resolves to the exit code and the output. */
  readonly ended: Promise<{ readonly code: number | null; readonly output: string }>;
  readonly #lines: string[] = [];
  #waiters: (() => void)[] = [];
  #hasEnded = false;
  #output = "";

  constructor({ command, argv, env, cwd }: LineProgram) {
    const child = spawn(command, argv, {
      ...(cwd === undefined ? {} : { cwd }),
      env: { ...process.env, ...env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (this.#output += chunk));
    createInterface({ input: child.stdout }).on("line", (line) => {
      this.#lines.push(line);
      this.#wake();
    });
    // A program that has ended reads no more lines.
    child.stdin.on("error", () => {});
    this.ended = once(child, "close").then(([code]) => {
      this.#hasEnded = true;
      this.#wake();
      return { code, output: this.#output };
    });
  }

  /** Waits until the program prints a line that starts with the text, and returns the rest of that line. */
  async printed(text: string): Promise<string> {
    for (;;) {
      const at = this.#lines.findIndex((line) => line.startsWith(text));
      if (at !== -1) return (this.#lines.splice(at, 1)[0] ?? "").slice(text.length).trim();
      if (this.#hasEnded) throw new Error(`ended without printing \`${text}\`: ${this.#output}`);
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  send(line: string): void {
    this.child.stdin?.write(`${line}\n`);
  }

  async stop(signal: NodeJS.Signals): Promise<number | null> {
    this.child.kill(signal);
    return (await this.ended).code;
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}
