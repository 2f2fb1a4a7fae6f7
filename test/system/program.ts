/** Processes of the shipped program. */
import { join } from "node:path";
import { build } from "../../scripts/build.mjs";
import { startUp, type UpProcess } from "../cli/run.ts";

export class Program {
  readonly file = join(import.meta.dirname, "..", "..", "dist", "main.js");
  readonly #started = new Set<UpProcess>();

  private constructor() {}

  /** Builds `dist/` if its sources have changed. */
  static async build(): Promise<Program> {
    await build({ quiet: true });
    return new Program();
  }

  /** Starts `cordum up`. */
  up(argv: readonly string[], env: Readonly<Record<string, string>> = {}): UpProcess {
    const started = startUp(argv, env, [this.file]);
    this.#started.add(started);
    void started.ended.then(() => this.#started.delete(started));
    return started;
  }

  /** Kills the running processes. */
  async stop(): Promise<void> {
    await Promise.all(
      [...this.#started].map(({ child, ended }) => {
        child.kill("SIGKILL");
        return ended;
      }),
    );
  }
}
