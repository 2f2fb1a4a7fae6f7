/** `cordum lab`: runs experiments under virtual time and prints tables or JSON. Flags are generated from parameters. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import type { Verdict } from "../../lab/chapter-verdicts.ts";
import { outcomeDocument } from "../../lab/document.ts";
import {
  type Experiment,
  type ExperimentOptions,
  type Outcome,
  runExperiment,
  seedParams,
} from "../../lab/experiment.ts";
import { EXPERIMENTS } from "../../lab/experiments.ts";
import { PROCESSES_MAX } from "../../lab/live.ts";
import { liveFacts, liveFindings } from "../../lab/live-compare.ts";
import { flagOf, type Param, type RawParams, readParams, valueText } from "../../lab/params.ts";
import { REPLAY_PARAMS } from "../../lab/replay/experiment.ts";
import { addCommand, addGroup, type CommandContext, collect } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import {
  type LiveOptions,
  type LiveRequest,
  readLiveOptions,
  SECONDS_DEFAULT,
  SECONDS_MAX,
  TIMES_MAX,
} from "./live-options.ts";
import { addReplayCommand, openReplay, type ReplayOptions, replayText } from "./replay.ts";

export function addLab(program: Command, context: CommandContext): void {
  const { io, version, exit } = context;
  const lab = addGroup(program, "lab", "run experiments with the engine under virtual time");
  for (const one of EXPERIMENTS) {
    const command = addCommand(lab, one.name, one.summary);
    for (const [name, param] of Object.entries({ ...seedParams(one), ...one.params })) addFlag(command, name, param);
    if (one.live !== undefined) addLiveFlags(command);
    command
      .option("--out <dir>", "write a report with charts into this directory")
      .action(async (options: LabOptions) => exit(await runLab(io, one, options, version)));
  }
  addReplay(lab, context);
  addChapter(lab, context);
}

function addReplay(lab: Command, context: CommandContext): void {
  const command = addReplayCommand(lab);
  for (const [name, param] of Object.entries({ ...SEEDS_OF_REPLAY, ...REPLAY_PARAMS })) addFlag(command, name, param);
  command
    .option("--out <dir>", "write a report with charts into this directory")
    .action(async (options: LabOptions & ReplayOptions) => {
      const one = await openReplay(context, options);
      context.exit(await runLab(context.io, one, options, context.version, replayText));
    });
}

type LabOptions = RawParams & LiveOptions & { readonly json?: boolean; readonly out?: string };

async function runLab(
  io: Io,
  one: Experiment,
  options: LabOptions,
  version: string,
  extraText: (outcome: Outcome, width: number | null) => string = () => "",
): Promise<ExitCode> {
  const ask = readOptions(one, options);
  const request = readLiveOptions(options, `cordum lab ${one.name} --help`);
  if (request !== null) rejectMeasuredParams(one, options);
  // Fails early if the directory is not writable.
  if (options.out !== undefined) withWriteErrors(options.out, () => mkdirSync(options.out ?? "", { recursive: true }));
  const line = new ProgressLine(io);
  const outcome = request === null ? await simulate(one, ask, line) : await simulateAndRun(io, one, ask, request, line);
  line.clear();
  if (options.json === true) {
    printJson(io, outcomeDocument(outcome));
  } else {
    const { tablesText } = await import("../../lab/report/tables.ts");
    const screen = io.screen?.() ?? null;
    io.out(tablesText(one.tables, outcome, { width: screen?.columns ?? null, color: screen?.color ?? false }));
    io.out(extraText(outcome, screen?.columns ?? null));
    if (outcome.live)
      io.out(
        `\n${liveFacts(outcome.live)
          .map(([name, text]) => `${name}: ${text}\n`)
          .join("")}`,
      );
    const findings = [...one.findings(outcome), ...(outcome.live ? liveFindings(outcome, outcome.live) : [])];
    if (findings.length > 0) io.out(`\n${findings.map((sentence) => `- ${sentence}\n`).join("")}`);
  }
  if (options.out !== undefined) {
    const { reportFiles } = await import("../../lab/report/page.ts");
    const files = reportFiles(one, outcome, { versions: { cordum: version, node: process.versions.node } });
    for (const { name, text } of files) writeInto(io, options.out, name, text);
  }
  return EXIT.ok;
}

function simulate(one: Experiment, ask: ExperimentOptions, line: ProgressLine): Promise<Outcome> {
  return runExperiment(one, ask, (share) => {
    line.show(`lab ${one.name}: ${Math.floor(100 * share)} % of ${ask.seeds} ${ask.seeds === 1 ? "seed" : "seeds"}`);
  });
}

/** The simulation runs first, with the measured parameters of the target. */
async function simulateAndRun(
  io: Io,
  one: Experiment,
  ask: ExperimentOptions & { readonly typed: ReadonlySet<string> },
  request: LiveRequest,
  line: ProgressLine,
): Promise<Outcome> {
  const { planLive, runLive } = await import("./live.ts");
  line.show(`lab ${one.name} live: measuring the target`);
  const plan = await planLive(io, one, ask, request);
  const simulated = await simulate(one, { ...ask, params: plan.params }, line);
  const note = (done: number, of: number, name: string): void =>
    line.show(`lab ${one.name} live: ${done} of ${of} rows, running ${name}`);
  return runLive(io, one, simulated, { request, plan, note }).finally(() => line.clear());
}

const SEEDS_OF_REPLAY = seedParams({ seedsDefault: 1, centre: "median" });

function readOptions(one: Experiment, options: LabOptions) {
  try {
    const typed = typedFor(one, options);
    const names = Object.keys(typed).filter((name) => typed[name] !== undefined);
    return { ...readParams(seedParams(one), options), params: one.readParams(typed), typed: new Set(names) };
  } catch (error) {
    throw new CliError(EXIT.usage, (error as Error).message, `cordum lab ${one.name} --help`);
  }
}

/** Rejects parameters that a live run measures on its target. */
function rejectMeasuredParams(one: Experiment, options: LabOptions): void {
  const typed = one.live?.measuredParams.find((name) => options[name] !== undefined);
  if (typed === undefined) return;
  const message = `${flagOf(typed, one.params[typed])} is measured on the target of a live run; remove it`;
  throw new CliError(EXIT.usage, message, `cordum lab ${one.name} --help`);
}

function addLiveFlags(command: Command): void {
  command
    .option("--live", "also run with real processes and compare; embedded unless --nats and --redis are set")
    .option("--nats <url>", "with --live: NATS server; uses subjects that start with cordum-lab- only")
    .option("--redis <url>", "with --live: Redis server; uses keys that start with cordum-lab- only")
    .option("--yes-i-own-this", "with --live: allow remote servers")
    .option("--processes <n>", `with --live: number of processes, at most ${PROCESSES_MAX}`)
    .option(
      "--live-seconds <n>",
      `with --live: time limit per row in seconds, at most ${SECONDS_MAX} (default: ${SECONDS_DEFAULT})`,
    )
    .option("--live-times <n>", `with --live: repetitions per row, at most ${TIMES_MAX}; the median counts`);
}

/** Commander names options after flags; `--policy` selects the rows of the experiment. */
function typedFor(one: Experiment, options: LabOptions): RawParams {
  return Object.fromEntries(
    Object.entries(one.params).map(([name, param]) => [name, options[param.kind === "rows" ? "policy" : name]]),
  );
}

function addFlag(command: Command, name: string, param: Param): void {
  const flag = flagOf(name, param);
  const usual = `${param.help} (default: ${valueText(param.default)})`;
  switch (param.kind) {
    case "rows":
      command.option(
        `${flag} <policy>`,
        `${usual}; ${rowsHelp(param)}`,
        (text: string, before: readonly string[] = []) => collect(text, before),
      );
      return;
    case "choice":
      command.option(`${flag} <${param.choices.join("|")}>`, usual);
      return;
    case "numbers":
      command.option(`${flag} <n,…>`, usual);
      return;
    case "number":
      command.option(`${flag} <n>`, usual);
      return;
    default:
      param satisfies never;
  }
}

function rowsHelp({ known }: Extract<Param, { kind: "rows" }>): string {
  return `${Object.keys(known).join(", ")}, or a retry policy like full:1s:30s`;
}

function writeInto(io: Io, dir: string, name: string, text: string): void {
  const file = join(dir, name);
  withWriteErrors(dir, () => writeFileSync(file, text));
  io.err(`wrote ${file}\n`);
}

function withWriteErrors(dir: string, write: () => void): void {
  try {
    write();
  } catch (error) {
    const why = (error as Error).message;
    throw new CliError(EXIT.error, `cannot write to \`${dir}\`: ${why}`, "cordum lab --help");
  }
}

function addChapter(lab: Command, { io, exit }: CommandContext): void {
  addCommand(lab, "chapter", "write the documentation page of experiment results, with fixed seeds")
    .requiredOption("--out <dir>", "target directory")
    .action(async ({ out, json }: { readonly out: string; readonly json?: boolean }) => {
      const [{ PARTS, chapterFiles, runPart }, { verdictsOf }] = await Promise.all([
        import("../../lab/chapter.ts"),
        import("../../lab/chapter-verdicts.ts"),
      ]);
      const line = new ProgressLine(io);
      const outcomes: Outcome[] = [];
      for (const [index, part] of PARTS.entries()) {
        const note = (share: number): void =>
          line.show(`lab ${part.experiment.name}: part ${index + 1} of ${PARTS.length}, ${Math.floor(100 * share)} %`);
        outcomes.push(await runPart(part, note));
      }
      line.clear();
      const files = chapterFiles(PARTS, outcomes);
      for (const { name, text } of files) {
        write(join(out, name), text);
        io.err(`wrote ${join(out, name)}\n`);
      }
      if (json === true)
        printJson(io, { files: files.map(({ name }) => name), defaults: verdictsDocument(verdictsOf(outcomes)) });
      exit(EXIT.ok);
    });
}

function verdictsDocument(verdicts: readonly Verdict[]): readonly object[] {
  return verdicts.map(({ setting, value, isSupported, reason: why }) => ({
    setting,
    value,
    is_supported: isSupported,
    why,
  }));
}

function write(file: string, text: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  } catch (error) {
    throw new CliError(
      EXIT.error,
      `cannot write \`${file}\`: ${(error as Error).message}`,
      "cordum lab chapter --help",
    );
  }
}
