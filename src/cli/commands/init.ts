/** Writes a small project: policy, workflow, worker and test. The files are those of `templates/init` of the package. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { addCommand, type CommandContext } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";

export function addInit(program: Command, { io, version, exit }: CommandContext): void {
  addCommand(program, "init", "write a small project: policy, workflow, TypeScript worker and test")
    .argument("[dir]", "target directory; created if missing, must be empty", ".")
    .action((dir: string, options: { json?: boolean }) => exit(initProject(io, version, dir, options.json === true)));
}

function initProject(io: Io, version: string, dir: string, json: boolean): ExitCode {
  const target = resolve(dir);
  const files = templateFiles();
  refuseContent(target, dir);
  const values = { name: packageName(target), cordum: `^${version}` };
  try {
    for (const { name, text } of files) {
      const file = join(target, name);
      mkdirSync(dirname(file), { recursive: true });
      // `wx` never replaces a file, also one that appeared since the check.
      writeFileSync(file, filled(text, values), { flag: "wx" });
    }
  } catch (error) {
    throw new CliError(EXIT.error, `cannot write to \`${dir}\`: ${messageOf(error)}`, "cordum init --help");
  }
  const names = files.map(({ name }) => name);
  const enter = relative(process.cwd(), target) === "" ? [] : [`cd ${shellWord(dir)}`];
  const next = [...enter, "npm install", "npm test", "npm start"];
  if (json) printJson(io, { directory: target, files: names, next });
  else io.out(`${names.map((name) => join(dir, name)).join("\n")}\n`);
  io.err(`next: ${next.join(" && ")}\nthen, in another terminal: npm run worker\n`);
  return EXIT.ok;
}

/** A repository without files counts as empty. */
function refuseContent(target: string, dir: string): void {
  const content = entriesOf(target, dir).filter((name) => name !== ".git");
  if (content.length === 0) return;
  const shown = content.slice(0, SHOWN_MAX).map((name) => `\`${name}\``);
  const more = content.length > SHOWN_MAX ? ` and ${content.length - SHOWN_MAX} more` : "";
  const message = `\`${dir}\` is not empty: it contains ${shown.join(", ")}${more}`;
  throw new CliError(EXIT.conflict, message, "cordum init my-agents");
}

function entriesOf(target: string, dir: string): string[] {
  try {
    return readdirSync(target).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw new CliError(EXIT.error, `cannot write to \`${dir}\`: ${messageOf(error)}`, "cordum init my-agents");
  }
}

function templateFiles(): { name: string; text: string }[] {
  const folder = templateFolder();
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((file) => ({ name: targetName(relative(folder, file)), text: readFileSync(file, "utf8") }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The package is one level above dist/ and three levels above this file's folder in src/. */
function templateFolder(): string {
  const root = import.meta.url.endsWith(".ts") ? "../../../" : "../";
  return fileURLToPath(new URL(`${root}templates/init`, import.meta.url));
}

/** npm leaves `.gitignore` out of packages. */
function targetName(name: string): string {
  return name === "gitignore" ? ".gitignore" : name;
}

function filled(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{\{(\w+)\}\}/g, (whole, name: string) => values[name] ?? whole);
}

/** A name that npm accepts, from the name of the directory. */
function packageName(target: string): string {
  const name = basename(target)
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, NAME_LENGTH_MAX);
  // A package cannot depend on a package of its own name.
  return name === "" || name === "cordum" ? "my-agents" : name;
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const NAME_LENGTH_MAX = 100;
const SHOWN_MAX = 3;
