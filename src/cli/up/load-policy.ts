/** The policy of a start: a file that is published, or a built-in one until something is. */
import { readFileSync } from "node:fs";
import { compile } from "../../core/policy/compile.ts";
import { type ReadPolicy, readPolicy } from "../../core/policy/document.ts";
import { builtInKernel, DEMO_POLICY, type LiveKernel } from "../../core/policy/kernel.ts";
import type { Published } from "../../engine/safety/index.ts";
import type { Log } from "../../ports/log.ts";
import { CliError, EXIT } from "../exit.ts";
import { stampOf, watchFile } from "./watch-file.ts";

export interface LoadedPolicy {
  /** In force until something is published. */
  readonly kernel: LiveKernel;
  readonly file: PolicyText | null;
}

export interface PolicyText {
  readonly name: string;
  readonly text: string;
  /** Of the file as it was read. */
  readonly stamp: string;
}

/** Throws when the file is wrong: nothing is started under a policy that was not meant. */
export function loadPolicy(file: string | null, demo: boolean): LoadedPolicy {
  const kernel = demo
    ? builtInKernel(DEMO_POLICY, "built-in for the demo: `demo.forbidden` is denied, `demo.approve` asks first")
    : builtInKernel();
  if (file === null) return { kernel, file: null };
  const stamp = stampOf(file);
  const text = readText(file);
  const read = readPolicy({ name: file, text });
  if (read.kind === "bad") throw wrongPolicy(file, read.problems, "so nothing was started");
  return { kernel, file: { name: file, text, stamp } };
}

export function readText(file: string, what = "the policy", next = `cordum policy check ${file}`): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `cannot read ${what} \`${file}\`: ${why}`, next);
  }
}

export function wrongPolicy(file: string, problems: readonly string[], so: string): CliError {
  const lines = problems.map((problem) => `\n  ${problem}`).join("");
  return new CliError(EXIT.usage, `the policy is wrong, ${so}:${lines}`, `cordum policy check ${file}`, { problems });
}

/** Publishes the file whenever it changes. One that is wrong, or cannot be published, changes nothing, loudly. */
export function publishChanges(
  { name, stamp }: PolicyText,
  log: Log,
  publish: (text: string) => Promise<Published>,
): () => void {
  const take = async () => {
    const published = await publish(readFileSync(name, "utf8"));
    if (published.kind === "bad") throw new Error(published.problems.join("; "));
  };
  let last = Promise.resolve();
  return watchFile(name, stamp, () => {
    // One after the other: the file as it is last must be what is published last.
    last = last.then(take).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      log.write("error", "policy_not_published", { file: name, why, still: "the policy from before is in force" });
    });
  });
}

/** Where there is no store to publish to: the file itself is in force. */
export async function putFileInForce(kernel: LiveKernel, name: string, text: string): Promise<Published> {
  const read: ReadPolicy = readPolicy({ name, text });
  if (read.kind === "bad") return read;
  const snapshot = compile(read.document);
  kernel.update({ snapshot, source: name, releaseId: null, revision: kernel.inForce.revision + 1 });
  return { kind: "unchanged", snapshot: snapshot.hash };
}
