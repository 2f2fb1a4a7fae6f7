/**
 * `cordum up --workflows DIR`: a directory of workflows, applied at start and again when a file in it changes.
 *
 * 1. Nothing is started, and nothing applied, with a workflow that is wrong: all that is wrong with all of them is said,
 *    each with its place.
 * 2. While running, a file that is wrong changes nothing, loudly; the others are applied all the same.
 * 3. A file that is gone takes nothing away: `cordum workflow delete` does.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DEFAULT_ORG } from "../../core/jobs/submission.ts";
import { readWorkflow } from "../../core/workflow/definition/read-workflow.ts";
import type { Engine } from "../../engine/engine.ts";
import { applyWorkflow } from "../../engine/runs/index.ts";
import type { Log } from "../../ports/log.ts";
import { CliError, EXIT } from "../exit.ts";
import { stampOf, watchStamp } from "./watch-file.ts";

export interface WorkflowDir {
  readonly name: string;
  readonly texts: readonly WorkflowText[];
  /** Of each file as it was read. */
  readonly stamps: Stamps;
}

interface WorkflowText {
  readonly file: string;
  readonly text: string;
}

type Stamps = ReadonlyMap<string, string>;

/** Throws when a file is wrong. */
export function loadWorkflows(name: string): WorkflowDir {
  const stamps = stampsIn(name);
  const problems: string[] = [];
  const texts: WorkflowText[] = [];
  const fileOf = new Map<string, string>();
  for (const file of stamps.keys()) {
    const text = readIn(name, () => readFileSync(file, "utf8"));
    const read = readWorkflow({ text, file });
    texts.push({ file, text });
    if (read.kind === "bad") problems.push(...read.problems);
    else {
      const other = fileOf.get(read.plan.id);
      // Each would be a new version after the other, with every start.
      if (other !== undefined) problems.push(`${file}: \`${read.plan.id}\` is the workflow of ${other} already`);
      fileOf.set(read.plan.id, file);
    }
  }
  if (problems.length === 0) return { name, texts, stamps };
  const lines = problems.map((problem) => `\n  ${problem}`).join("");
  const message = `the workflows are wrong, so nothing was started:${lines}`;
  throw new CliError(EXIT.usage, message, `cordum up --workflows ${name}`, { problems });
}

export async function applyAtStart(engine: Engine, { texts }: WorkflowDir, log: Log): Promise<void> {
  for (const one of texts) await applyText(engine, one, log);
}

/** Applies what has changed since it was read, again and again. */
export function applyChanges(engine: Engine, { name, stamps }: WorkflowDir, log: Log): () => void {
  let known = stamps;
  const take = async () => {
    const now = stampsIn(name);
    const changed = [...now].filter(([file, stamp]) => known.get(file) !== stamp).map(([file]) => file);
    known = now;
    for (const file of changed) {
      try {
        await applyText(engine, { file, text: readFileSync(file, "utf8") }, log);
      } catch (error) {
        log.write("error", "workflow_not_applied", { file, why: whyOf(error), still: STILL });
      }
    }
  };
  let last = Promise.resolve();
  const stampNow = () => {
    try {
      return JSON.stringify([...stampsIn(name)]);
    } catch {
      return "absent";
    }
  };
  return watchStamp(stampNow, JSON.stringify([...stamps]), () => {
    // One after the other: a file as it is last must be what is applied last.
    last = last.then(take).catch((error: unknown) => {
      log.write("error", "workflows_not_read", { dir: name, why: whyOf(error), still: STILL });
    });
  });
}

const STILL = "the version from before is the one that is started";

async function applyText(engine: Engine, { file, text }: WorkflowText, log: Log): Promise<void> {
  const applied = await applyWorkflow(engine, { org: DEFAULT_ORG, by: `file ${file}`, source: { text, file } });
  if (applied.kind === "invalid") throw new Error(applied.problems.join("; "));
  const { id, version, isNew } = applied;
  if (isNew) log.write("info", "workflow_applied", { file, workflow: id, version });
}

/** Sorted, so that what is said and done has the same order everywhere. */
function stampsIn(dir: string): Stamps {
  const names = readIn(dir, () => readdirSync(dir, { withFileTypes: true }))
    .filter((entry) => !entry.isDirectory() && /\.(yaml|yml|json)$/.test(entry.name))
    .map(({ name }) => join(dir, name))
    .sort();
  return new Map(names.map((name) => [name, stampOf(name)]));
}

function readIn<T>(dir: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot read the workflows in \`${dir}\`: ${whyOf(error)}`, "cordum up --help");
  }
}

const whyOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
