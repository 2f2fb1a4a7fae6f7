/**
 * The commands and their flags. What a command does is in a file of its own; here, and in `*-commands.ts`, is only how it
 * is typed.
 *
 * 1. Data to stdout, talk to stderr. With `--json` every command prints one document, errors too.
 * 2. Every error names the next command, and the exit code says what kind of error it was.
 */
import { Argument, Command, CommanderError, Option } from "commander";
import { printCompletion, SHELLS, type Shell } from "./commands/completion.ts";
import { addConfig } from "./commands/config.ts";
import { runDoctor } from "./commands/doctor.ts";
import { addApproval, addJob } from "./commands/job-commands.ts";
import { addAudit, addFailOpen, addKey, addKill } from "./commands/lever-commands.ts";
import { addPolicy } from "./commands/policy-commands.ts";
import { addDlq, addWorkers } from "./commands/queue-commands.ts";
import type { SimCommandOptions } from "./commands/sim.ts";
import { showStatus } from "./commands/status.ts";
import { addWorkflow } from "./commands/workflow-commands.ts";
import { addCommand, type CommandContext, newContext, whole } from "./context.ts";
import { CliError, EXIT, type ExitCode } from "./exit.ts";
import { type Io, ProgressLine, printJson } from "./io.ts";
import { addLab } from "./lab/lab.ts";
import { MEMBER } from "./lab/lab-live-text.ts";
import { addRun } from "./run/run-commands.ts";
import { printable } from "./table.ts";
import { loadConfig } from "./up/load-config.ts";
import type { UpOptions } from "./up/up.ts";

export async function runCli(argv: readonly string[], io: Io, version: string): Promise<number> {
  if (argv[0] === MEMBER) return (await import("./lab/lab-live-member.ts")).runMember();
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
    .description("A control plane for AI agents: policy before dispatch, retries with intent, nothing lost.")
    .version(version, "-V, --version", "print the version")
    .helpCommand(false)
    // Else `run start --version 2` would be taken for the question which version of cordum this is.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.err(text), outputError: () => {} });
  addUp(program, context);
  addHealth(program, context);
  addJob(program, context);
  addWorkflow(program, context);
  addRun(program, context);
  addApproval(program, context);
  addDlq(program, context);
  addWorkers(program, context);
  addPolicy(program, context);
  addFailOpen(program, context);
  addKill(program, context);
  addKey(program, context);
  addAudit(program, context);
  addConfig(program, context);
  addBackup(program, context);
  addSim(program, context);
  addLab(program, context);
  addCompletion(program, context);
  return program;
}

function addUp(program: Command, { io, version, exit }: CommandContext): void {
  addCommand(program, "up", "run the control plane; embedded unless --nats and --redis are given")
    .option("--data <dir>", "the data directory (default: .cordum)")
    .option("--host <host>", "the address to listen on; beyond loopback it takes an API key (default: 127.0.0.1)")
    .option("--port <port>", "the port to listen on; 0 picks a free one (default: 8081)")
    .option("--nats <url>", "the NATS server of a cluster")
    .option("--redis <url>", "the Redis server of a cluster")
    .option("--role <role>", "all, or a part of a cluster: gateway, control, safety (default: all)")
    .option("--safety <host:port>", "a safety kernel in another process; in this one when not given")
    .option("--policy <file>", "the safety policy; published when it differs from the one published last")
    .option(
      "--workflows <dir>",
      "workflows; every *.yaml, *.yml and *.json in it is applied, and again when it changes",
    )
    .option("--config <file>", "the config file (default: cordum.yaml, if there is one)")
    .option("--demo", "start a demo worker, and show what to try")
    .action(async (options: UpOptions) => {
      // Loaded only now: servers and drivers would slow every other command down.
      const { up } = await import("./up/up.ts");
      exit(await up(io, options, version));
    });
}

function addHealth(program: Command, { io, client, version, exit }: CommandContext): void {
  addCommand(program, "status", "how the control plane is: progress, policy, durability, what waits and why").action(
    async (options: { json?: boolean }) => exit(await showStatus(io, client(), options.json === true)),
  );
  addCommand(program, "doctor", "what is dangerous, with the fix; exit 1 when anything is").action(
    async (options: { json?: boolean }) => exit(await runDoctor(io, client(), version, options.json === true)),
  );
}

function addBackup(program: Command, { io, exit }: CommandContext): void {
  addCommand(program, "backup", "copy the data of an embedded control plane, while it runs or not")
    .argument("<dir>", "where to; made if it is not there")
    .option("--data <dir>", "the data directory (default: .cordum)")
    .option("--config <file>", "the config file (default: cordum.yaml, if there is one)")
    .action(async (into: string, options: { json?: boolean; data?: string; config?: string }) => {
      const { backUp } = await import("./commands/backup.ts");
      const flags = [{ name: "data.dir", flag: "--data", value: options.data }] as const;
      exit(await backUp(io, loadConfig(io, options.config, flags), into, options.json === true));
    });
}

function addSim(program: Command, { io, exit }: CommandContext): void {
  addCommand(program, "sim", "run the shipped core in the simulator; exit 1 on a violation")
    .option("--seed <n>", "one seed", whole)
    .option("--seeds <n>", "so many seeds, from --seed on", whole)
    .option("--runs <n>", "jobs per seed", whole)
    .addOption(new Option("--faults <faults>", "which faults").choices(["none", "lite", "swarm"]))
    .option("--mutant <name>", "run with a known bug that the checkers must catch")
    .addOption(new Option("--plant <name>", "the former name of --mutant").hideHelp())
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

function addCompletion(program: Command, { io, exit }: CommandContext): void {
  addCommand(program, "completion", "print a script that completes commands in a shell")
    .addArgument(new Argument("<shell>", "which shell").choices(SHELLS))
    .action((shell: Shell, options: { json?: boolean }) =>
      exit(printCompletion(io, program, shell, options.json === true)),
    );
}

/** How an error is told to programs: not at all, as a document, or as one more line of a stream (NDJSON). */
type Format = "none" | "document" | "line";

function formatOf(argv: readonly string[]): Format {
  if (!argv.includes("--json")) return "none";
  const isStream = argv[0] === "run" && (argv[1] === "watch" || argv.includes("--watch"));
  return isStream ? "line" : "document";
}

function report(io: Io, error: unknown, format: Format, help: string): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.ok;
    // Commander has printed its help already where a command is missing.
    if (error.code === "commander.help") return EXIT.usage;
    return reportError(io, new CliError(EXIT.usage, error.message.replace(/^error: /, ""), help), format, help);
  }
  if (error instanceof CliError) return reportError(io, error, format, help);
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return reportError(io, new CliError(EXIT.error, `this should not happen: ${text}`, "cordum status"), format, help);
}

/** `cordum job submit --help`: the help of the command that was meant, as far as it can be told. */
function helpFor(program: Command, argv: readonly string[]): string {
  let command = program;
  const words = ["cordum"];
  for (const word of argv) {
    const next = command.commands.find((candidate) => candidate.name() === word);
    if (next === undefined) break;
    words.push(word);
    command = next;
  }
  return [...words, "--help"].join(" ");
}

function reportError(io: Io, error: CliError, format: Format, help: string): number {
  const next = (error.next ?? help).replace(/^cordum\b/, io.command);
  const document = { ...error.fields, error: error.message, exit_code: error.exitCode, next };
  if (format === "document") printJson(io, document);
  if (format === "line") io.out(`${JSON.stringify({ event: "error", ...document })}\n`);
  // Lists of problems have lines of their own; the lines themselves may quote anything.
  const message = error.message.split("\n").map(printable).join("\n");
  io.err(`cordum: ${message}\nnext: ${next}\n`);
  return error.exitCode;
}
