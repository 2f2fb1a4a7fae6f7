/**
 * The commands and their flags. What a command does is in a file of its own; here is only how it is typed.
 *
 * 1. Data to stdout, talk to stderr. With `--json` every command prints one document, errors too.
 * 2. Every error names the next command, and the exit code says what kind of error it was.
 */
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { parseDuration } from "../retry/duration.ts";
import { openClient } from "./client.ts";
import { listDeadLetters, showDeadLetter } from "./dlq.ts";
import { CliError, EXIT } from "./exit.ts";
import { explainConfig } from "./explain.ts";
import { type Io, printJson } from "./io.ts";
import { getJob, type ListOptions, listJobs, type SubmitOptions, submitJob } from "./job.ts";
import { loadConfig } from "./load-config.ts";
import type { SimCommandOptions } from "./sim.ts";
import { showStatus } from "./status.ts";
import type { UpOptions } from "./up.ts";

export async function runCli(argv: readonly string[], io: Io, version: string): Promise<number> {
  const ended: Ended = { exitCode: EXIT.fine };
  const program = buildProgram(io, version, ended);
  try {
    await program.parseAsync(argv, { from: "user" });
    return ended.exitCode;
  } catch (error) {
    return report(io, error, argv.includes("--json"), helpFor(program, argv));
  }
}

interface Ended {
  exitCode: number;
}

function buildProgram(io: Io, version: string, ended: Ended): Command {
  const program = new Command("cordum")
    .description("A control plane for AI agents: policy before dispatch, retries with intent, nothing lost.")
    .version(version, "-V, --version", "print the version")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({ writeOut: (text) => io.out(text), writeErr: (text) => io.say(text), outputError: () => {} });
  addUp(program, io, version, ended);
  addStatus(program, io, ended);
  addJob(program, io, ended);
  addDlq(program, io, ended);
  addConfig(program, io);
  addSim(program, io, ended);
  return program;
}

function addUp(program: Command, io: Io, version: string, ended: Ended): void {
  leaf(program, "up", "run the control plane; embedded unless --nats and --redis are given")
    .option("--data <dir>", "the data directory (default: .cordum)")
    .option("--host <host>", "the address to listen on; loopback only (default: 127.0.0.1)")
    .option("--port <port>", "the port to listen on; 0 picks a free one (default: 8081)")
    .option("--nats <url>", "the NATS server of a cluster")
    .option("--redis <url>", "the Redis server of a cluster")
    .option("--policy <file>", "the safety policy")
    .option("--config <file>", "the config file (default: cordum.yaml, if there is one)")
    .option("--demo", "start a demo worker, and show what to try")
    .action(async (options: UpOptions) => {
      // Loaded only now: servers and drivers would slow every other command down.
      const { up } = await import("./up.ts");
      ended.exitCode = await up(io, options, version);
    });
}

function addStatus(program: Command, io: Io, ended: Ended): void {
  leaf(program, "status", "how the control plane is: progress, policy, durability, what waits").action(
    async (options: { json?: boolean }) => {
      ended.exitCode = await showStatus(io, openClient(io), options.json === true);
    },
  );
}

function addJob(program: Command, io: Io, ended: Ended): void {
  const job = group(program, "job", "submit jobs and see what became of them");
  leaf(job, "submit", "submit a job")
    .argument("<topic>", "who should do it, such as demo.echo")
    .argument("[input]", "its input as JSON; `-` reads it from stdin")
    .option("--wait", "wait until it has ended, and print its result")
    .option("--timeout <duration>", "with --wait: stop waiting after so long, such as 30s", duration)
    .addOption(new Option("--priority <priority>", "how urgent it is").choices(["interactive", "batch", "critical"]))
    .option("--label <key=value>", "a label; may be repeated", label, {})
    .option("--risk-tag <tag>", "a risk tag; may be repeated", collect, [])
    .option("--capability <name>", "what the job needs to be able to do")
    .option("--actor <id>", "on whose behalf")
    .option("--key <key>", "an idempotency key: the same key and job again make no second job")
    .action(async (topic: string, input: string | undefined, options: SubmitOptions & { timeout?: number }) => {
      const { timeout, ...rest } = options;
      const all = timeout === undefined ? rest : { ...rest, timeoutMs: timeout };
      ended.exitCode = await submitJob(io, openClient(io), topic, input, all);
    });
  leaf(job, "get", "show one job")
    .argument("<id>", "the job's id")
    .action(async (id: string, options: { json?: boolean }) => {
      ended.exitCode = await getJob(io, openClient(io), id, options.json === true);
    });
  leaf(job, "list", "list jobs, newest first")
    .option("--state <state>", "only those in this state, such as RETRYING")
    .option("--limit <n>", "how many, 1 to 200")
    .option("--cursor <cursor>", "where the page before ended")
    .action(async (options: ListOptions) => {
      ended.exitCode = await listJobs(io, openClient(io), options);
    });
}

function addDlq(program: Command, io: Io, ended: Ended): void {
  const dlq = group(program, "dlq", "dead letters: what could not be done, and why");
  leaf(dlq, "list", "list dead letters, newest first")
    .option("--limit <n>", "how many, 1 to 200")
    .option("--cursor <cursor>", "where the page before ended")
    .action(async (options: { json?: boolean; limit?: string; cursor?: string }) => {
      ended.exitCode = await listDeadLetters(io, openClient(io), options);
    });
  leaf(dlq, "show", "show one dead letter whole")
    .argument("<id>", "its id, or that of its job")
    .action(async (id: string) => {
      ended.exitCode = await showDeadLetter(io, openClient(io), id);
    });
}

function addConfig(program: Command, io: Io): void {
  const config = group(program, "config", "the settings of the control plane");
  leaf(config, "explain", "every setting with its value and where that comes from")
    .argument("[name]", "one setting, in detail")
    .option("--config <file>", "the config file (default: cordum.yaml, if there is one)")
    .action((name: string | undefined, options: { json?: boolean; config?: string }) => {
      explainConfig(io, loadConfig(io, options.config, []), name, options.json === true);
    });
}

function addSim(program: Command, io: Io, ended: Ended): void {
  leaf(program, "sim", "run the shipped core in the simulator; exit 1 on a violation")
    .option("--seed <n>", "one seed", whole)
    .option("--seeds <n>", "so many seeds, from --seed on", whole)
    .option("--runs <n>", "jobs per seed", whole)
    .addOption(new Option("--faults <faults>", "which faults").choices(["none", "lite", "swarm"]))
    .option("--plant <name>", "plant a known bug, which the checkers must catch")
    .action(async (options: SimCommandOptions) => {
      const { runSim } = await import("./sim.ts");
      ended.exitCode = await runSim(options, (text: string) => io.out(text));
    });
}

function group(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).helpCommand(false);
}

function leaf(parent: Command, name: string, description: string): Command {
  return parent.command(name).description(description).option("--json", "print one JSON document");
}

function report(io: Io, error: unknown, json: boolean, help: string): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return EXIT.fine;
    // Commander has printed its help already where a command is missing.
    if (error.code === "commander.help") return EXIT.usage;
    return reportError(io, new CliError(EXIT.usage, error.message.replace(/^error: /, ""), help), json);
  }
  if (error instanceof CliError) return reportError(io, error, json);
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return reportError(io, new CliError(EXIT.error, `this should not happen: ${text}`, "cordum status"), json);
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

function reportError(io: Io, error: CliError, json: boolean): number {
  const next = error.next.replace(/^cordum\b/, io.command);
  if (json) printJson(io, { ...error.facts, error: error.message, exit_code: error.exitCode, next });
  io.say(`cordum: ${error.message}\nnext: ${next}\n`);
  return error.exitCode;
}

function whole(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("it must be a whole number.");
}

function duration(text: string): number {
  try {
    return parseDuration(text, { msMin: 1, msMax: 24 * 3_600_000 });
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text];
}

function label(text: string, before: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("write it as key=value.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}
