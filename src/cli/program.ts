/**
 * The command tree and the error report.
 *
 * Data goes to stdout, diagnostics to stderr. With `--json` every command prints one document, also for errors. Every
 * error names the next command.
 */
import { Command, CommanderError, Option } from "commander";
import { CordumError } from "../client/client-error.ts";
import { terminalJson } from "../core/model/json.ts";
import { cliErrorFrom } from "./client.ts";
import { addApproval } from "./commands/approval.ts";
import { addAudit } from "./commands/audit.ts";
import { addBackup } from "./commands/backup.ts";
import { addCompletion } from "./commands/completion.ts";
import { addConfig } from "./commands/config.ts";
import { addDemo } from "./commands/demo.ts";
import { addDlq } from "./commands/dlq.ts";
import { addFailOpen } from "./commands/fail-open.ts";
import { addInit } from "./commands/init.ts";
import { addJob } from "./commands/job.ts";
import { addKey } from "./commands/key.ts";
import { addKill } from "./commands/kill.ts";
import { addPolicy } from "./commands/policy-commands.ts";
import { addRepair } from "./commands/repair.ts";
import type { SimCommandOptions } from "./commands/sim.ts";
import { addStatus } from "./commands/status.ts";
import { addTrace } from "./commands/trace.ts";
import { addWorkers } from "./commands/workers.ts";
import { addWorkflow } from "./commands/workflow.ts";
import { addCommand, type CommandContext, newContext, whole } from "./context.ts";
import { addDoctor } from "./doctor/doctor.ts";
import { CliError, EXIT, type ExitCode } from "./exit.ts";
import { type Io, ProgressLine, printJson } from "./io.ts";
import { addLab } from "./lab/lab.ts";
import { MEMBER_COMMAND } from "./lab/live-processes.ts";
import { addRollout } from "./rollout/rollout.ts";
import { addRun } from "./run/run.ts";
import { addSchedule } from "./schedule/schedule.ts";
import { printable } from "./table.ts";
import type { UpOptions } from "./up/up.ts";

export async function runCli(argv: readonly string[], io: Io, version: string): Promise<number> {
  if (argv[0] === MEMBER_COMMAND) return (await import("./lab/live-member.ts")).runMember();
  let exitCode: ExitCode = EXIT.ok;
  const context = newContext(io, version, (code) => {
    exitCode = code;
  });
  const program = buildProgram(context);
  try {
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (error) {
    return report(io, error, formatOf(argv), helpFor(program, argv));
  }
}

export function buildProgram(context: CommandContext): Command {
  const { io, version } = context;
  const program = new Command("cordum")
    .description("Control plane for AI agents: jobs, workflows, safety policies, retries and locks.")
    .version(version, "-V, --version", "print the version")
    .helpCommand(false)
    // Keeps `run start --version 2` from being parsed as `cordum --version`.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.err(text), outputError: () => {} });
  addInit(program, context);
  addUp(program, context);
  addStatus(program, context);
  addDoctor(program, context);
  addJob(program, context);
  addWorkflow(program, context);
  addRun(program, context);
  addSchedule(program, context);
  addApproval(program, context);
  addDlq(program, context);
  addWorkers(program, context);
  addPolicy(program, context);
  addFailOpen(program, context);
  addKill(program, context);
  addRollout(program, context);
  addKey(program, context);
  addAudit(program, context);
  addTrace(program, context);
  addConfig(program, context);
  addDemo(program, context);
  addBackup(program, context);
  addRepair(program, context);
  addSim(program, context);
  addLab(program, context);
  addCompletion(program, context);
  return program;
}

function addUp(program: Command, { io, version, exit }: CommandContext): void {
  addCommand(program, "up", "start the control plane; embedded unless --nats and --redis are set")
    .option("--data <dir>", "data directory (default: .cordum)")
    .option("--host <host>", "listen address; addresses other than loopback require an API key (default: 127.0.0.1)")
    .option("--port <port>", "listen port; 0 picks a free port (default: 8081)")
    .option("--nats <url>", "NATS server of a cluster")
    .option("--redis <url>", "Redis server of a cluster")
    .option("--role <role>", "process role: all, gateway, control or safety (default: all)")
    .option("--safety <host:port>", "address of a remote safety kernel (default: in this process)")
    .option("--policy <file>", "safety policy file; published if it differs from the file published last")
    .option(
      "--workflows <dir>",
      "workflow directory; *.yaml, *.yml and *.json files are applied at start and on change",
    )
    .option("--config <file>", "config file (default: cordum.yaml, if it exists)")
    .option("--demo", "start a demo worker and print example commands")
    .action(async (options: UpOptions) => {
      // Loaded on demand: servers and drivers would slow down the start of every other command.
      const { up } = await import("./up/up.ts");
      exit(await up(io, options, version));
    });
}

function addSim(program: Command, { io, exit }: CommandContext): void {
  addCommand(program, "sim", "run the engine in the deterministic simulator; exit 1 on a violation")
    .option("--seed <n>", "first seed", whole)
    .option("--seeds <n>", "number of seeds, starting at --seed", whole)
    .option("--runs <n>", "jobs per seed", whole)
    .addOption(new Option("--faults <faults>", "fault profile").choices(["none", "lite", "swarm"]))
    .option("--mutant <name>", "inject a known bug that the checkers must detect")
    .addOption(new Option("--plant <name>", "deprecated alias of --mutant").hideHelp())
    .action(async (options: SimCommandOptions) => {
      const { runSim } = await import("./commands/sim.ts");
      const line = new ProgressLine(io);
      const write = (text: string) => {
        line.clear();
        io.out(text);
      };
      exit(await runSim(options, write, (text: string) => line.show(text)));
    });
}

/** How an error is printed to stdout: not at all, as a document, or as a line of an NDJSON stream. */
type Format = "none" | "document" | "line";

function formatOf(argv: readonly string[]): Format {
  if (!argv.includes("--json")) return "none";
  const isStream = argv[1] === "watch" || argv.includes("--watch");
  return isStream ? "line" : "document";
}

function report(io: Io, error: unknown, format: Format, help: string): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.ok;
    // Commander has already printed the help of a group without a command.
    if (error.code === "commander.help") return EXIT.usage;
    return reportError(io, new CliError(EXIT.usage, error.message.replace(/^error: /, ""), help), format, help);
  }
  if (error instanceof CordumError) return reportError(io, cliErrorFrom(io, error), format, help);
  if (error instanceof CliError) return reportError(io, error, format, help);
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return reportError(io, new CliError(EXIT.error, `internal error: ${text}`, "cordum status"), format, help);
}

/** The help of the longest known prefix of the command line, such as `cordum job submit --help`. */
function helpFor(program: Command, argv: readonly string[]): string {
  let command = program;
  const path = ["cordum"];
  for (const word of argv) {
    const next = command.commands.find((candidate) => candidate.name() === word);
    if (next === undefined) break;
    path.push(word);
    command = next;
  }
  return [...path, "--help"].join(" ");
}

function reportError(io: Io, error: CliError, format: Format, help: string): number {
  const next = (error.next ?? help).replace(/^cordum\b/, io.command);
  const document = { ...error.fields, error: error.message, exit_code: error.exitCode, next };
  if (format === "document") printJson(io, document);
  if (format === "line") io.out(`${terminalJson({ event: "error", ...document })}\n`);
  // Messages may span lines, and the lines may quote user input.
  const message = error.message.split("\n").map(printable).join("\n");
  io.err(`cordum: ${message}\nnext: ${next}\n`);
  return error.exitCode;
}
