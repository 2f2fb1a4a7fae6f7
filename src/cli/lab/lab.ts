/**
 * `cordum lab`: runs an experiment under virtual time and shows what came out. The tables go to stdout (or the one JSON
 * document), files with `--out`, progress to whoever watches. An experiment's flags are made from its params.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { outcomeDocument } from "../../lab/document.ts";
import { type Experiment, type ExperimentOptions, type Outcome, runExperiment } from "../../lab/experiment.ts";
import { EXPERIMENTS } from "../../lab/experiments.ts";
import { PROCESSES_MAX } from "../../lab/live.ts";
import { liveFacts, liveFindings } from "../../lab/live-compare.ts";
import { flagOf, type NumberParam, type Param, type RawParams, readParams, valueText } from "../../lab/params.ts";
import { addCommand, addGroup, type CommandContext, collect } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { addChapter } from "./lab-chapter.ts";
import {
  type LiveOptions,
  type LiveWish,
  readLiveWish,
  SECONDS_DEFAULT,
  SECONDS_MAX,
  TIMES_MAX,
} from "./lab-live-target.ts";

export function addLab(program: Command, context: CommandContext): void {
  const { io, version, exit } = context;
  const lab = addGroup(program, "lab", "experiments with the shipped code under virtual time, in seconds");
  for (const one of EXPERIMENTS) {
    const command = addCommand(lab, one.name, one.summary);
    for (const [name, param] of Object.entries({ ...seedParams(one), ...one.params })) addFlag(command, name, param);
    if (one.live !== undefined) addLiveFlags(command);
    command
      .option("--out <dir>", "write a page with pictures, and the pictures as files, into this directory")
      .action(async (options: LabOptions) => exit(await runLab(io, one, options, version)));
  }
  addChapter(lab, context);
}

type LabOptions = RawParams & LiveOptions & { readonly json?: boolean; readonly out?: string };

async function runLab(io: Io, one: Experiment, options: LabOptions, version: string): Promise<ExitCode> {
  const ask = readAsk(one, options);
  const request = readLiveWish(options, `cordum lab ${one.name} --help`);
  if (request !== null) refuseDecided(one, options);
  // Before the work, not after it.
  if (options.out !== undefined) tryToWrite(options.out, () => mkdirSync(options.out ?? "", { recursive: true }));
  const line = new ProgressLine(io);
  const outcome = request === null ? await simulate(one, ask, line) : await simulateAndRun(io, one, ask, request, line);
  line.clear();
  if (options.json === true) {
    printJson(io, outcomeDocument(outcome));
  } else {
    const { tablesText } = await import("../../lab/report/tables.ts");
    const screen = io.screen?.() ?? null;
    io.out(tablesText(one.tables, outcome, { width: screen?.columns ?? null, color: screen?.color ?? false }));
    if (outcome.live)
      io.out(
        `\n${liveFacts(outcome.live)
          .map(([name, text]) => `${name}: ${text}\n`)
          .join("")}`,
      );
    const said = [...one.findings(outcome), ...(outcome.live ? liveFindings(outcome, outcome.live) : [])];
    if (said.length > 0) io.out(`\n${said.map((sentence) => `- ${sentence}\n`).join("")}`);
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

/** The simulation first, with what the target allows: it says what to expect. */
async function simulateAndRun(
  io: Io,
  one: Experiment,
  ask: ExperimentOptions & { readonly typed: ReadonlySet<string> },
  request: LiveWish,
  line: ProgressLine,
): Promise<Outcome> {
  const { planLive, runLive } = await import("./lab-live.ts");
  line.show(`lab ${one.name} live: measures the target`);
  const plan = await planLive(io, one, ask, request);
  const simulated = await simulate(one, { ...ask, params: plan.params }, line);
  const note = (done: number, of: number, name: string): void =>
    line.show(`lab ${one.name} live: ${done} of ${of} rows, now ${name}`);
  return runLive(io, one, simulated, { request, plan, note }).finally(() => line.clear());
}

const SEEDS_MAX = 10_000;

function seedParams(one: Experiment): { readonly seed: NumberParam; readonly seeds: NumberParam } {
  const count = { kind: "number", unit: "", isWhole: true } as const;
  return {
    seed: { ...count, default: 1, min: 0, max: Number.MAX_SAFE_INTEGER - SEEDS_MAX, help: "the first seed" },
    seeds: {
      ...count,
      default: one.seedsDefault,
      min: 1,
      max: SEEDS_MAX,
      help: `so many seeds, from --seed on; figures are the ${one.centre} of them`,
    },
  };
}

function readAsk(one: Experiment, options: LabOptions) {
  try {
    const typed = typedFor(one, options);
    const names = Object.keys(typed).filter((name) => typed[name] !== undefined);
    return { ...readParams(seedParams(one), options), params: one.readParams(typed), typed: new Set(names) };
  } catch (error) {
    throw new CliError(EXIT.usage, (error as Error).message, `cordum lab ${one.name} --help`);
  }
}

/** What the target decides was typed in vain, and whoever typed it should know. */
function refuseDecided(one: Experiment, options: LabOptions): void {
  const typed = one.live?.measuredParams.find((name) => options[name] !== undefined);
  if (typed === undefined) return;
  const message = `${flagOf(typed, one.params[typed])} is measured on the target of a live run: leave it out`;
  throw new CliError(EXIT.usage, message, `cordum lab ${one.name} --help`);
}

function addLiveFlags(command: Command): void {
  command
    .option("--live", "run it with real processes, too, and show both side by side; embedded unless servers are given")
    .option("--nats <url>", "with --live: the NATS server; only subjects that begin with cordum-lab- are used")
    .option("--redis <url>", "with --live: the Redis server; only keys that begin with cordum-lab- are used")
    .option("--yes-i-own-this", "with --live: the servers may be other machines")
    .option("--processes <n>", `with --live: how many processes, ${PROCESSES_MAX} at most`)
    .option(
      "--live-seconds <n>",
      `with --live: how long a row may take, ${SECONDS_MAX} at most (default: ${SECONDS_DEFAULT})`,
    )
    .option("--live-times <n>", `with --live: how often each row is run, ${TIMES_MAX} at most; the middle one counts`);
}

/** Commander names an option after its flag, and `--policy` stands for whatever the experiment calls its rows. */
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
  return `${Object.keys(known).join(", ")}, or a policy like full:1s:30s`;
}

function writeInto(io: Io, dir: string, name: string, text: string): void {
  const file = join(dir, name);
  tryToWrite(dir, () => writeFileSync(file, text));
  io.err(`wrote ${file}\n`);
}

function tryToWrite(dir: string, write: () => void): void {
  try {
    write();
  } catch (error) {
    const why = (error as Error).message;
    throw new CliError(EXIT.error, `cannot write into \`${dir}\`: ${why}`, "cordum lab --help");
  }
}
