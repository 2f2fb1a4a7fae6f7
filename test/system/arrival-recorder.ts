import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/**
 * A process that records when requests arrive, and that can be killed and restarted. It runs with a high priority where
 * that is allowed: a recorder that waits for the CPU would see all arrivals at once.
 */
export class ArrivalRecorder {
  /** The arrival times since the last start. */
  times: number[] = [];
  readonly #argv: readonly string[];
  #child: ChildProcess | null = null;

  constructor(argv: readonly string[]) {
    this.#argv = argv;
  }

  /** Resolves when the process is ready. */
  async start(): Promise<void> {
    this.times = [];
    const child = spawn("nice", ["-n", "-15", process.execPath, ...this.#argv], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      child.once("close", () => reject(new Error(`\`${this.#argv[0]}\` exited before it was ready`)));
      createInterface({ input: child.stdout as NonNullable<ChildProcess["stdout"]> }).on("line", (line) => {
        const [word, ...times] = line.split(" ");
        if (word === "ready") resolve();
        else for (const atMs of times) this.times.push(Number(atMs));
      });
    });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
}
