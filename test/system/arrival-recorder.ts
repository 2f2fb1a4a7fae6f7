import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/**
 * A process that tells when something happened to it, and that can be killed and started again.
 *
 * It goes before all others of this machine where that is allowed: what it tells is when others came to it, and a watch that
 * has to wait for its turn behind a dozen processes finds everybody at the door at once.
 */
export class Telling {
  /** When it happened, since it was last started. */
  times: number[] = [];
  readonly #argv: readonly string[];
  #child: ChildProcess | null = null;

  constructor(argv: readonly string[]) {
    this.#argv = argv;
  }

  /** Resolves when it says that it is ready. */
  async start(): Promise<void> {
    this.times = [];
    const child = spawn("nice", ["-n", "-15", process.execPath, ...this.#argv], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      child.once("close", () => reject(new Error(`\`${this.#argv[0]}\` ended before it was ready`)));
      createInterface({ input: child.stdout as NonNullable<ChildProcess["stdout"]> }).on("line", (line) => {
        const [word, ...times] = line.split(" ");
        if (word === "ready") resolve();
        else for (const atMs of times) this.times.push(Number(atMs));
      });
    });
  }

  /** At once. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
}
