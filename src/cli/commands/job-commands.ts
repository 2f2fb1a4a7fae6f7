/** How the `job` and `approval` commands are typed. */
import { type Command, Option } from "commander";
import { addCommand, addGroup, addListCommand, type CommandContext, collect, durationUpTo, pair } from "../context.ts";
import type { PageOptions } from "../table.ts";
import { type ApproveOptions, approveJob, listApprovals, type RejectOptions, rejectJob } from "./approval.ts";
import {
  type CancelOptions,
  cancelJob,
  explainJob,
  getJob,
  type ListOptions,
  listJobs,
  type SubmitOptions,
  submitJob,
} from "./job.ts";

export function addJob(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const job = addGroup(program, "job", "submit jobs and see what became of them");
  addSubmit(job, context);
  addCommand(job, "get", "show one job")
    .argument("<id>", "the job's id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await getJob(io, client(), id, options.json === true)),
    );
  addListCommand(job, "list", "list jobs, newest first")
    .option("--state <state>", "only those in this state, such as RETRYING")
    .action(async (options: ListOptions) => exit(await listJobs(io, client(), options)));
  addCommand(job, "cancel", "end a job that is not wanted any more")
    .argument("<id>", "the job's id")
    .option("--reason <text>", "why, for those who come after")
    .action(async (id: string, options: CancelOptions) => exit(await cancelJob(io, client(), id, options)));
  addCommand(job, "explain", "why a job does not move, until when, and what unblocks it")
    .argument("<id>", "the job's id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await explainJob(io, client(), id, options.json === true)),
    );
}

export function addApproval(program: Command, { io, client, exit }: CommandContext): void {
  const approval = addGroup(program, "approval", "jobs that wait for a human to decide");
  addListCommand(approval, "list", "list jobs that wait for a human, newest first").action(
    async (options: PageOptions) => exit(await listApprovals(io, client(), options)),
  );
  addCommand(approval, "approve", "let a job run")
    .argument("<id>", "the job's id")
    .option("--note <text>", "why, for those who come after")
    .option("--job-hash <hash>", "only if it is still the job that was shown with this hash")
    .option("--snapshot <hash>", "only if it was asked for by this policy")
    .action(async (id: string, options: ApproveOptions) => exit(await approveJob(io, client(), id, options)));
  addCommand(approval, "reject", "end a job that must not run")
    .argument("<id>", "the job's id")
    .requiredOption("--reason <text>", "why, for those who come after")
    .action(async (id: string, options: RejectOptions) => exit(await rejectJob(io, client(), id, options)));
}

function addSubmit(job: Command, { io, client, exit }: CommandContext): void {
  addCommand(job, "submit", "submit a job")
    .argument("<topic>", "who should do it, such as demo.echo")
    .argument("[input]", "its input as JSON; `-` reads it from stdin")
    .option("--wait", "wait until it has ended, through retries and approvals, and print its result")
    .option("--timeout <duration>", "with --wait: stop waiting after so long, such as 30s", durationUpTo(DAY_MS))
    .addOption(new Option("--priority <priority>", "how urgent it is").choices(["interactive", "batch", "critical"]))
    .option("--label <key=value>", "a label; may be repeated", pair, {})
    .option("--risk-tag <tag>", "a risk tag; may be repeated", collect, [])
    .option("--requires <name>", "what a worker must be able to do; may be repeated", collect, [])
    .option("--capability <name>", "what the job needs to be able to do")
    .option("--actor <id>", "on whose behalf")
    .addOption(new Option("--actor-type <type>", "what the actor is").choices(["human", "service"]))
    .option("--pack <id>", "the pack that it belongs to")
    .option("--mcp <part=name>", "server, tool, resource or action of an MCP call; may be repeated", pair, {})
    .option("--key <key>", "an idempotency key: the same key and job again make no second job")
    .action(async (topic: string, input: string | undefined, options: SubmitOptions) =>
      exit(await submitJob(io, client(), topic, input, options)),
    );
}

const DAY_MS = 24 * 3_600_000;
