/** `cordum lab replay`: reads recorded contention from the control plane or a file, and replays it. */
import { readFileSync, statSync } from "node:fs";
import type { Command } from "commander";
import { type ContentionRecord, RETENTION_MS } from "../../core/contention/acquisition.ts";
import { traceOf } from "../../core/contention/trace.ts";
import type { Experiment, Outcome } from "../../lab/experiment.ts";
import { replayExperiment, SUMMARY } from "../../lab/replay/experiment.ts";
import { waveText } from "../../lab/replay/report.ts";
import { readRecords, readTraceFile } from "../../lab/replay/trace-file.ts";
import { fetchRecords, LAST } from "../commands/trace.ts";
import { addCommand, type CommandContext } from "../context.ts";
import { CliError, EXIT } from "../exit.ts";

export interface ReplayOptions {
  readonly last?: number;
  readonly from?: string;
}

/** Without the flags of parameters. */
export function addReplayCommand(lab: Command): Command {
  return addCommand(lab, "replay", SUMMARY)
    .option(...LAST)
    .option("--from <file>", "replay a file of `cordum trace export` instead of the record of the control plane");
}

export async function openReplay(context: CommandContext, options: ReplayOptions): Promise<Experiment> {
  const records = options.from === undefined ? await fetched(context, options) : readFrom(options.from, options);
  const trace = traceOf(records);
  if (trace.size > 0) return replayExperiment(trace);
  const message =
    options.from === undefined
      ? "no lock contention was recorded in this time; it is recorded a minute after it happens, unless `contention.record` is off"
      : `\`${options.from}\` has no recorded lock contention`;
  throw new CliError(EXIT.notFound, message, "cordum config explain contention.record");
}

async function fetched({ io, client }: CommandContext, { last }: ReplayOptions): Promise<readonly ContentionRecord[]> {
  const documents = await fetchRecords(io, client(), last ?? RETENTION_MS);
  try {
    return readRecords(documents);
  } catch (error) {
    const message = `the control plane returned a record that cannot be read: ${(error as Error).message}`;
    throw new CliError(EXIT.error, message, "cordum status");
  }
}

function readFrom(file: string, { last }: ReplayOptions): readonly ContentionRecord[] {
  try {
    if (statSync(file).size > FILE_BYTES_MAX) throw new Error(`it is larger than ${FILE_BYTES_MAX} bytes`);
    const records = readTraceFile(readFileSync(file, "utf8"));
    if (last === undefined) return records;
    const untilMs = records.reduce((most, { toMs }) => Math.max(most, toMs), 0);
    return records.filter(({ toMs }) => toMs >= untilMs - last);
  } catch (error) {
    const message = `cannot replay \`${file}\`: ${(error as Error).message}`;
    throw new CliError(EXIT.usage, message, "cordum trace export FILE");
  }
}

/** Printed below the tables. */
export function replayText(outcome: Outcome, width: number | null): string {
  return `\n${waveText(outcome, width ?? WIDTH_DEFAULT)}`;
}

const FILE_BYTES_MAX = 256 * 1024 * 1024;
const WIDTH_DEFAULT = 100;
