import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { AdmissionCommand } from "./fixtures/admission-process.ts";

/** A child process that starts runs, and what it has said. Its answers come in the order of the commands. */
export class Starter {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly #said: Record<string, unknown>[] = [];
  #wake = (): void => {};
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

  tell(command: AdmissionCommand): void {
    this.#child.stdin!.write(`${JSON.stringify(command)}\n`);
  }

  async answer<T = unknown>(name: string): Promise<T> {
    for (;;) {
      const said = this.#said.shift();
      if (said && !(name in said)) throw new Error(`\`${name}\` was expected, not ${JSON.stringify(said)}`);
      if (said) return said[name] as T;
      if (this.#end) throw this.#end;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  ask<T = unknown>(command: AdmissionCommand, name: string): Promise<T> {
    this.tell(command);
    return this.answer<T>(name);
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }
}
