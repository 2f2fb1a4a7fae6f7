/**
 * `cordum up --workflows DIR`: applies the workflows of a directory, and the schedules in its folder `schedules`, at start and on change.
 *
 * An invalid file prevents the start. While running, an invalid file is logged and skipped. Removed files delete nothing;
 * use `cordum workflow delete` and `cordum schedule delete`.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DEFAULT_ORG } from "../../core/model/job-id.ts";
import { readWorkflow } from "../../core/workflow/definition/read-workflow.ts";
import type { Engine } from "../../engine/engine.ts";
import { applyWorkflow } from "../../engine/runs/index.ts";
import { applySchedule } from "../../engine/schedules/index.ts";
import type { Log } from "../../ports/log.ts";
import { CliError, EXIT } from "../exit.ts";
import { readSchedules } from "../schedule/read-schedules.ts";
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

/** Schedules are applied after the workflows that they start. */
const isSchedule = (dir: string, file: string): boolean => dirname(file) === join(dir, SCHEDULES_DIR);
const SCHEDULES_DIR = "schedules";

type FileVersions = ReadonlyMap<string, string>;

/** Throws if a file is invalid. */
export function loadWorkflows(name: string): WorkflowDir {
  const versions = versionsIn(name);
  const problems: string[] = [];
  const texts: WorkflowText[] = [];
  const fileOf = new Map<string, string>();
  for (const file of versions.keys()) {
    const text = readIn(name, () => readFileSync(file, "utf8"));
    texts.push({ file, text });
    if (isSchedule(name, file)) {
      const read = readSchedules(text, file);
      if (read.kind === "bad") problems.push(...read.problems);
      continue;
    }
    const read = readWorkflow({ text, file });
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

export async function applyAtStart(engine: Engine, { name, texts }: WorkflowDir, log: Log): Promise<void> {
  for (const one of texts) await applyText(engine, name, one, log);
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
        await applyText(engine, name, { file, text: readFileSync(file, "utf8") }, log);
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

async function applyText(engine: Engine, dir: string, { file, text }: WorkflowText, log: Log): Promise<void> {
  const by = `file ${file}`;
  if (isSchedule(dir, file)) return applySchedules(engine, { file, text }, by, log);
  const applied = await applyWorkflow(engine, { org: DEFAULT_ORG, by, source: { text, file } });
  if (applied.kind === "invalid") throw new Error(applied.problems.join("; "));
  if (applied.kind !== "applied") throw new Error(applied.kind === "over" ? applied.why : "too many evaluations");
  const { id, version, isNew } = applied;
  if (isNew) log.write("info", "workflow_applied", { file, workflow: id, version });
}

async function applySchedules(engine: Engine, { file, text }: WorkflowText, by: string, log: Log): Promise<void> {
  const read = readSchedules(text, file);
  if (read.kind === "bad") throw new Error(read.problems.join("; "));
  for (const document of read.documents) {
    const applied = await applySchedule(engine, { org: DEFAULT_ORG, document, by });
    if (applied.kind === "invalid") throw new Error(`${file}: ${applied.problems.join("; ")}`);
    if (applied.kind === "too_many") throw new Error(`${file}: \`limits.schedules_max\` is ${applied.limit}`);
    if (applied.isNew) log.write("info", "schedule_applied", { file, schedule: applied.schedule.id });
  }
}

/** Sorted by name for a deterministic order; schedules come last. */
function versionsIn(dir: string): FileVersions {
  const entries = readIn(dir, () => readdirSync(dir, { withFileTypes: true }));
  const hasSchedules = entries.some((entry) => entry.isDirectory() && entry.name === SCHEDULES_DIR);
  const schedules = hasSchedules ? filesIn(join(dir, SCHEDULES_DIR)) : [];
  return new Map([...filesIn(dir), ...schedules].map((name) => [name, fileVersion(name)]));
}

const filesIn = (dir: string): readonly string[] =>
  readIn(dir, () => readdirSync(dir, { withFileTypes: true }))
    .filter((entry) => !entry.isDirectory() && /\.(yaml|yml|json)$/.test(entry.name))
    .map(({ name }) => join(dir, name))
    .sort();

function readIn<T>(dir: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot read workflow directory \`${dir}\`: ${whyOf(error)}`, "cordum up --help");
  }
}

const whyOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
