import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** A child process that reads JSON commands from stdin and writes JSON replies `{name: value}` to stdout, one per line. */
export class CommandProcess<Command extends object> {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #replies: Record<string, unknown>[] = [];
  #waiters: (() => void)[] = [];
  #exitError: Error | null = null;

  constructor(script: string, url: string) {
    this.#child = spawn(process.execPath, [script, url], { stdio: ["pipe", "pipe", "inherit"] });
    this.#exited = new Promise((resolve) => this.#child.once("exit", resolve));
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      this.#replies.push(JSON.parse(line) as Record<string, unknown>);
      this.#wake();
    });
    void this.#exited.then((code) => {
      this.#exitError = new Error(`the process exited with ${String(code)}`);
      this.#wake();
    });
  }

  send(command: Command): void {
    this.#child.stdin!.write(`${JSON.stringify(command)}\n`);
  }

  /** Waits for a reply with this name and removes it. */
  async receive<T = unknown>(name: string): Promise<T> {
    for (;;) {
      const at = this.#replies.findIndex((reply) => name in reply);
      if (at !== -1) return this.#replies.splice(at, 1)[0]![name] as T;
      if (this.#exitError !== null) throw this.#exitError;
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  call<T = unknown>(command: Command, name: string): Promise<T> {
    this.send(command);
    return this.receive<T>(name);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}
