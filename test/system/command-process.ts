import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** A child process that is told what to do, a line each, and what it has said; what it says has a name. */
export class Child<Command extends object> {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #said: Record<string, unknown>[] = [];
  #waiters: (() => void)[] = [];
  #end: Error | null = null;

  constructor(script: string, url: string) {
    this.#child = spawn(process.execPath, [script, url], { stdio: ["pipe", "pipe", "inherit"] });
    this.#exited = new Promise((resolve) => this.#child.once("exit", resolve));
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      this.#said.push(JSON.parse(line) as Record<string, unknown>);
      this.#wake();
    });
    void this.#exited.then((code) => {
      this.#end = new Error(`the process has ended: ${String(code)}`);
      this.#wake();
    });
  }

  tell(command: Command): void {
    this.#child.stdin!.write(`${JSON.stringify(command)}\n`);
  }

  /** Waits for an answer of this name, and takes it away. */
  async answer<T = unknown>(name: string): Promise<T> {
    for (;;) {
      const at = this.#said.findIndex((said) => name in said);
      if (at !== -1) return this.#said.splice(at, 1)[0]![name] as T;
      if (this.#end !== null) throw this.#end;
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  ask<T = unknown>(command: Command, name: string): Promise<T> {
    this.tell(command);
    return this.answer<T>(name);
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
