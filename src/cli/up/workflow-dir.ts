/**
 * `cordum up --workflows DIR`: applies the workflows of a directory at start and on change.
 *
 * An invalid file prevents the start. While running, an invalid file is logged and skipped. Removed files delete nothing;
 * use `cordum workflow delete`.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { readWorkflow } from "../../core/workflow/definition/read-workflow.ts";
import type { Engine } from "../../engine/engine.ts";
import { applyWorkflow } from "../../engine/runs/index.ts";
import type { Log } from "../../ports/log.ts";
import { CliError, EXIT } from "../exit.ts";
import { fileVersion, watchVersion } from "./watch-file.ts";

export interface WorkflowDir {
  readonly name: string;
  readonly texts: readonly WorkflowText[];
  /** The file versions that were read. */
  readonly versions: FileVersions;
}

interface WorkflowText {
  readonly file: string;
  readonly text: string;
}

type FileVersions = ReadonlyMap<string, string>;

/** Throws if a file is invalid. */
export function loadWorkflows(name: string): WorkflowDir {
  const versions = versionsIn(name);
  const problems: string[] = [];
  const texts: WorkflowText[] = [];
  const fileOf = new Map<string, string>();
  for (const file of versions.keys()) {
    const text = readIn(name, () => readFileSync(file, "utf8"));
    const read = readWorkflow({ text, file });
    texts.push({ file, text });
    if (read.kind === "bad") problems.push(...read.problems);
    else {
      const other = fileOf.get(read.plan.id);
      // Every start would create new versions.
      if (other !== undefined) problems.push(`${file}: workflow \`${read.plan.id}\` is already defined in ${other}`);
      fileOf.set(read.plan.id, file);
    }
  }
  if (problems.length === 0) return { name, texts, versions };
  const lines = problems.map((problem) => `\n  ${problem}`).join("");
  const message = `invalid workflows:${lines}`;
  throw new CliError(EXIT.usage, message, `cordum up --workflows ${name}`, { problems });
}

export async function applyAtStart(engine: Engine, { texts }: WorkflowDir, log: Log): Promise<void> {
  for (const one of texts) await applyText(engine, one, log);
}

/** Applies changed files until stopped. */
export function applyChanges(engine: Engine, { name, versions }: WorkflowDir, log: Log): () => void {
  let known = versions;
  const applyNow = async () => {
    const now = versionsIn(name);
    const changed = [...now].filter(([file, version]) => known.get(file) !== version).map(([file]) => file);
    known = now;
    for (const file of changed) {
      try {
        await applyText(engine, { file, text: readFileSync(file, "utf8") }, log);
      } catch (error) {
        log.write("error", "workflow_apply_failed", { file, error: whyOf(error), detail: UNCHANGED });
      }
    }
  };
  let last = Promise.resolve();
  const readVersion = () => {
    try {
      return JSON.stringify([...versionsIn(name)]);
    } catch {
      return "absent";
    }
  };
  return watchVersion(readVersion, JSON.stringify([...versions]), () => {
    // Serialized: the latest version of a file must be applied last.
    last = last.then(applyNow).catch((error: unknown) => {
      log.write("error", "workflow_dir_read_failed", { dir: name, error: whyOf(error), detail: UNCHANGED });
    });
  });
}

const UNCHANGED = "the previous version stays in use";

async function applyText(engine: Engine, { file, text }: WorkflowText, log: Log): Promise<void> {
  const applied = await applyWorkflow(engine, { org: DEFAULT_ORG, by: `file ${file}`, source: { text, file } });
  if (applied.kind === "invalid") throw new Error(applied.problems.join("; "));
  if (applied.kind !== "applied") throw new Error(applied.kind === "over" ? applied.why : "too many evaluations");
  const { id, version, isNew } = applied;
  if (isNew) log.write("info", "workflow_applied", { file, workflow: id, version });
}

/** Sorted by name for a deterministic order. */
function versionsIn(dir: string): FileVersions {
  const names = readIn(dir, () => readdirSync(dir, { withFileTypes: true }))
    .filter((entry) => !entry.isDirectory() && /\.(yaml|yml|json)$/.test(entry.name))
    .map(({ name }) => join(dir, name))
    .sort();
  return new Map(names.map((name) => [name, fileVersion(name)]));
}

function readIn<T>(dir: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot read workflow directory \`${dir}\`: ${whyOf(error)}`, "cordum up --help");
  }
}

const whyOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
