/** How the `run` commands are typed. */
import { type Command, Option } from "commander";
import { RUN_STATES } from "../../core/model/run.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, pair, whole } from "../context.ts";
import type { PageOptions } from "../table.ts";
import {
  explainRun,
  getRun,
  type ListOptions,
  listRuns,
  type OrderOptions,
  orderRun,
  type RunOrder,
  showTimeline,
} from "./run.ts";
import { type RerunOptions, rerun, type StartOptions, startRun } from "./run-start.ts";
import { watchRun } from "./run-watch.ts";

export function addRun(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const run = addGroup(program, "run", "runs of workflows: start them, watch them, move them");
  addStart(run, context);
  addCommand(run, "get", "show one run, with its steps as a picture")
    .argument("<id>", "the run's id")
    .action(async (id: string, options: Plain) => exit(await getRun(io, client(), id, options.json === true)));
  addListCommand(run, "list", "list runs, newest first")
    .addOption(new Option("--state <state>", "only those in this state").choices(RUN_STATES))
    .action(async (options: ListOptions) => exit(await listRuns(io, client(), options)));
  addCommand(run, "watch", "show a run while it goes on, until it has ended; exit 1 unless it succeeded")
    .argument("<id>", "the run's id")
    .action(async (id: string, options: Plain) => exit(await watchRun(io, client(), id, options.json === true)));
  addOrder(run, context, "cancel", "end a run that is not wanted any more, and everything that it began");
  addOrder(run, context, "pause", "let a run begin nothing new; what is being done goes on");
  addOrder(run, context, "resume", "let a paused run go on");
  addRerun(run, context);
  addListCommand(run, "timeline", "what happened in a run, oldest first: to which step, who did it, and why")
    .argument("<id>", "the run's id")
    .action(async (id: string, options: PageOptions) => exit(await showTimeline(io, client(), id, options)));
  addCommand(run, "explain", "why a run does not move, step by step, and what unblocks it")
    .argument("<id>", "the run's id")
    .action(async (id: string, options: Plain) => exit(await explainRun(io, client(), id, options.json === true)));
}

interface Plain {
  readonly json?: boolean;
}

function addStart(run: Command, { io, client, exit }: CommandContext): void {
  addCommand(run, "start", "start a run of a workflow")
    .argument("<workflow>", "the workflow's id")
    .argument("[input]", "its input as JSON; `@file` reads it from a file, `-` from stdin")
    .option("--key <key>", "an idempotency key: the same key and input again start no second run")
    .option("--label <key=value>", "a label; may be repeated", pair, {})
    .addOption(new Option("--priority <priority>", "how urgent it is").choices(["interactive", "batch", "critical"]))
    .option("--version <n>", "a version of the workflow; the newest when not given", whole)
    .option("--wait", "wait until it has ended, and print its output; exit 1 unless it succeeded")
    .option("--watch", "show it while it goes on, as `run watch` does")
    .option("--dry-run", "start nothing: show what the policy would say to each step")
    .action(async (workflow: string, input: string | undefined, options: StartOptions) =>
      exit(await startRun(io, client(), workflow, input, options)),
    );
}

function addRerun(run: Command, { io, client, exit }: CommandContext): void {
  addCommand(run, "rerun", "start an ended run anew from one of its steps; what was done before it is kept")
    .argument("<id>", "the run's id")
    .requiredOption("--from <step>", "the step to begin with")
    .option("--key <key>", "an idempotency key: the same key again starts no second run")
    .option("--dry-run", "start nothing: show what the policy would say to each step")
    .action(async (id: string, options: RerunOptions) => exit(await rerun(io, client(), id, options)));
}

function addOrder(run: Command, { io, client, exit }: CommandContext, order: RunOrder, description: string): void {
  addCommand(run, order, description)
    .argument("<id>", "the run's id")
    .option("--reason <text>", "why, for those who come after")
    .action(async (id: string, options: OrderOptions) => exit(await orderRun(io, client(), order, id, options)));
}
