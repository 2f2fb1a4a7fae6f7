import { readFileSync } from "node:fs";
import { compile, type Snapshot } from "../../core/policy/compile.ts";
import { type ReadPolicy, readPolicy } from "../../core/policy/document.ts";
import { builtInKernel, DEMO_POLICY, type LiveKernel } from "../../core/policy/kernel.ts";
import type { Published } from "../../engine/safety/index.ts";
import type { Log } from "../../ports/log.ts";
import { CliError, EXIT } from "../exit.ts";
import { fileVersion, watchFile } from "./watch-file.ts";

export interface LoadedPolicy {
  /** In force until a policy is published. */
  readonly kernel: LiveKernel;
  readonly file: PolicyText | null;
}

export interface PolicyText {
  readonly name: string;
  readonly text: string;
  /** The file version that was read. */
  readonly version: string;
}

/** Throws if the file is invalid. */
export function loadPolicy(file: string | null, demo: boolean): LoadedPolicy {
  const kernel = demo
    ? builtInKernel(DEMO_POLICY, "built-in demo policy: `demo.forbidden` is denied, `demo.approve` requires approval")
    : builtInKernel();
  if (file === null) return { kernel, file: null };
  const version = fileVersion(file);
  const text = readText(file);
  const read = readPolicy({ name: file, text });
  if (read.kind === "bad") throw invalidPolicy(file, read.problems);
  return { kernel, file: { name: file, text, version } };
}

/** Throws if the file is invalid. */
export function snapshotIn(file: string): Snapshot {
  const read = readPolicy({ name: file, text: readText(file) });
  if (read.kind === "bad") throw invalidPolicy(file, read.problems);
  return compile(read.document);
}

export function readText(file: string, what = "policy", next = `cordum policy check ${file}`): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `cannot read ${what} \`${file}\`: ${why}`, next);
  }
}

export function invalidPolicy(file: string, problems: readonly string[]): CliError {
  const lines = problems.map((problem) => `\n  ${problem}`).join("");
  return new CliError(EXIT.usage, `invalid policy:${lines}`, `cordum policy check ${file}`, { problems });
}

/** Publishes the file on change. An invalid file, or a failed publish, is logged and changes nothing. */
export function publishChanges(
  { name, version }: PolicyText,
  log: Log,
  publish: (text: string) => Promise<Published>,
): () => void {
  const publishNow = async () => {
    const published = await publish(readFileSync(name, "utf8"));
    if (published.kind === "bad") throw new Error(published.problems.join("; "));
  };
  let last = Promise.resolve();
  return watchFile(name, version, () => {
    // Serialized: the latest version of the file must be published last.
    last = last.then(publishNow).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      log.write("error", "policy_publish_failed", {
        file: name,
        error: why,
        detail: "the previous policy stays in force",
      });
    });
  });
}

/** For a safety kernel without a store: puts the file itself in force. */
export async function putFileInForce(kernel: LiveKernel, name: string, text: string): Promise<Published> {
  const read: ReadPolicy = readPolicy({ name, text });
  if (read.kind === "bad") return read;
  const snapshot = compile(read.document);
  kernel.update({ snapshot, source: name, releaseId: null, revision: kernel.inForce.revision + 1 });
  return { kind: "unchanged", snapshot: snapshot.hash };
}
