import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { SeededRandom } from "../../../src/sim/random.ts";
import { bundle } from "../bundle.ts";

/** Kills an embedded control plane under load, again and again, and tells what became of the jobs it acknowledged. */
export interface KillReport {
  readonly killed: number;
  readonly acknowledged: number;
  /** Acknowledged, and not in the store. */
  readonly lost: readonly string[];
  /** Two final states were committed. */
  readonly endedTwice: readonly string[];
  /** Ended, but not as they should have. */
  readonly unhappy: readonly string[];
}

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
    // The moment is a number of lines of output: anywhere between the start and full load.
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
    unhappy: [...acknowledged].filter((id) => ends.get(id)?.[0] !== "SUCCEEDED"),
  };
}

/** Runs the process until it ends by itself or `isTime` says so; then it is killed with no chance to tidy up. */
async function runUntil(
  script: string,
  args: readonly string[],
  read: (line: string) => void,
  isTime: (lines: number) => boolean,
) {
  const child: ChildProcess = spawn(process.execPath, [script, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let complaints = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    complaints += chunk.toString();
  });
  let lines = 0;
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    read(line);
    if (isTime(++lines) && child.exitCode === null) child.kill("SIGKILL");
  }
  const code = await ended;
  if (code !== null && code !== 0) throw new Error(`the process failed with ${code}: ${complaints.slice(-2_000)}`);
}
