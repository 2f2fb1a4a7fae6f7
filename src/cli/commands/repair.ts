import type { Command } from "commander";
import type { RepairReport } from "../../adapters/sqlite/integrity/repair.ts";
import { PLACEMENTS } from "../../engine/tables.ts";
import { addCommand, type CommandContext } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { printable } from "../table.ts";

export function addRepair(program: Command, { io, exit }: CommandContext): void {
  addCommand(
    program,
    "repair",
    "check a data directory that no process uses, and show what can be saved; exit 1 on damage",
  )
    .argument("<dir>", "data directory")
    .option("--write", "write what can be saved, and keep a copy of the damaged files")
    .action(async (dir: string, options: { json?: boolean; write?: boolean }) => {
      exit(await repair(io, dir, options.write === true, options.json === true));
    });
}

async function repair(io: Io, dir: string, write: boolean, json: boolean): Promise<ExitCode> {
  const { repairDirectory } = await import("../../adapters/sqlite/integrity/repair.ts");
  const report = await repairDirectory(dir, { write, placements: PLACEMENTS }).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    const exitCode = why.includes("is in use by process") ? EXIT.conflict : EXIT.error;
    throw new CliError(exitCode, `cannot repair \`${dir}\`: ${why}`, "cordum repair --help");
  });
  const isFine = report.problems.length === 0 || report.copy !== null;
  if (json) printJson(io, { ok: isFine, dir, ...report });
  else print(io, dir, report);
  return isFine ? EXIT.ok : EXIT.error;
}

function print(io: Io, dir: string, { problems, kept, lost, copy }: RepairReport): void {
  if (problems.length === 0) {
    io.out("no damage found\n");
    return;
  }
  const section = (title: string, lines: readonly string[]) => {
    const shown = lines.slice(0, LINES_MAX).map((line) => `  ${printable(line)}\n`);
    const rest = lines.length > LINES_MAX ? `  and ${lines.length - LINES_MAX} more (--json lists all)\n` : "";
    io.out(`${title}:\n${shown.join("")}${rest}`);
  };
  section("damaged", problems);
  section(
    copy === null ? "can be saved" : "saved",
    Object.entries(kept).map(([table, rows]) => `${table}: ${rows} rows`),
  );
  section("lost", lost.length === 0 ? ["nothing that can be named"] : lost);
  if (copy === null) io.err(`nothing was changed; to write what can be saved: ${io.command} repair ${dir} --write\n`);
  else io.err(`the damaged files are in ${copy}; to start: ${io.command} up --data ${dir}\n`);
}

const LINES_MAX = 50;
