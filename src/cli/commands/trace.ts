import { writeFileSync } from "node:fs";
import type { Command } from "commander";
import { RETENTION_MS } from "../../core/contention/acquisition.ts";
import type { Client, Json } from "../client.ts";
import { addCommand, addGroup, type CommandContext, durationUpTo } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { plural } from "../table.ts";

export const LAST = [
  "--last <duration>",
  "how far back, such as 2h (default: 24h)",
  durationUpTo(RETENTION_MS),
] as const;

export function addTrace(program: Command, { io, client, exit }: CommandContext): void {
  const trace = addGroup(program, "trace", "export recorded lock contention");
  addCommand(trace, "export", "write the recorded lock contention to a file, for `lab replay --from` on any machine")
    .argument("<file>", "target file")
    .option(...LAST)
    .action(async (file: string, options: ExportOptions) => exit(await exportTrace(io, client(), file, options)));
}

interface ExportOptions {
  readonly last?: number;
  readonly json?: boolean;
}

async function exportTrace(io: Io, client: Client, file: string, { last, json }: ExportOptions): Promise<ExitCode> {
  const records = await fetchRecords(io, client, last ?? RETENTION_MS);
  const { readRecords, traceFileText } = await import("../../lab/replay/trace-file.ts");
  const read = readRecords(records);
  const acquisitions = read.reduce((sum, one) => sum + one.acquisitions.length, 0);
  try {
    writeFileSync(file, traceFileText(records));
  } catch (error) {
    const message = `cannot write \`${file}\`: ${(error as Error).message}`;
    throw new CliError(EXIT.error, message, "cordum trace export --help");
  }
  if (json) printJson(io, { file, records: records.length, acquisitions });
  else {
    const [all, from] = [plural(acquisitions, "acquisition"), plural(records.length, "record")];
    io.out(`wrote ${all} of ${from} to ${file}\n`);
  }
  io.err(`next: ${io.command} lab replay --from ${file}\n`);
  return EXIT.ok;
}

/** The records of the last `lastMs`, as the gateway returns them. */
export async function fetchRecords(io: Io, client: Client, lastMs: number): Promise<readonly Json[]> {
  const line = new ProgressLine(io);
  const records: Json[] = [];
  const since = Math.max(0, Math.floor(io.nowMs() - lastMs));
  let cursor: string | undefined;
  do {
    const page: Json = await client.request("GET /contention", { query: { since, limit: 50, cursor } });
    records.push(...page.items);
    cursor = page.next_cursor ?? undefined;
    line.show(`reading the contention record: ${plural(records.length, "minute")}`);
  } while (cursor !== undefined);
  line.clear();
  return records;
}
