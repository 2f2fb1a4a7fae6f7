import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { SeededRandom } from "../../../src/sim/random.ts";
import { bundle } from "../bundle.ts";

export interface KillReport {
  readonly killed: number;
  readonly acknowledged: number;
  /** Acknowledged jobs that are not in the store. */
  readonly lost: readonly string[];
  /** Jobs with two committed final states. */
  readonly endedTwice: readonly string[];
  /** Jobs that ended in another state than SUCCEEDED. */
  readonly failed: readonly string[];
}

/** Repeatedly kills an embedded control plane under load and reports the outcome of the acknowledged jobs. */
export async function killEmbedded(options: {
  readonly dir: string;
  readonly kills: number;
  readonly seed: number;
  readonly onKill?: (count: number, acknowledged: number) => void;
}): Promise<KillReport> {
  const random = new SeededRandom(options.seed);
  const acknowledged = new Set<string>();
  const ends = new Map<string, string[]>();
  const lost: string[] = [];
  const read = (line: string): void => {
    const [word, id = "", state = ""] = line.split(" ");
    if (word === "ack") acknowledged.add(id);
    if (word === "lost") lost.push(id);
    if (word === "end") ends.set(id, [...(ends.get(id) ?? []), state]);
    if (word === "final" && !ends.has(id)) ends.set(id, [state]);
  };
  const script = await bundle("embedded-process.ts");
  let killed = 0;
  for (let boot = 1; boot <= options.kills; boot++) {
    // A random number of output lines after the start.
    const lines = 1 + Math.floor(random.next() ** 2 * 400);
    await runUntil(script, [options.dir, String(boot), "load"], read, (count) => count >= lines);
    killed++;
    options.onKill?.(killed, acknowledged.size);
  }
  const list = join(options.dir, "acknowledged.txt");
  writeFileSync(list, [...acknowledged].join("\n"));
  await runUntil(script, [options.dir, "last", list], read, () => false);
  return {
    killed,
    acknowledged: acknowledged.size,
    lost,
    endedTwice: [...ends].filter(([, states]) => states.length > 1).map(([id, states]) => `${id} ${states.join()}`),
    failed: [...acknowledged].filter((id) => ends.get(id)?.[0] !== "SUCCEEDED"),
  };
}

/** Runs the process until it exits or `isTime` holds; then it is killed with SIGKILL. */
async function runUntil(
  script: string,
  args: readonly string[],
  read: (line: string) => void,
  isTime: (lines: number) => boolean,
) {
  const child: ChildProcess = spawn(process.execPath, [script, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  let lines = 0;
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    read(line);
    if (isTime(++lines) && child.exitCode === null) child.kill("SIGKILL");
  }
  const code = await ended;
  if (code !== null && code !== 0) throw new Error(`the process exited with ${code}: ${stderr.slice(-2_000)}`);
}
