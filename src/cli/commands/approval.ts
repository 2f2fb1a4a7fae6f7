import type { Command } from "commander";
import type { Client } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, showPage } from "../table.ts";

export function addApproval(program: Command, { io, client, exit }: CommandContext): void {
  const approval = addGroup(program, "approval", "approve or reject jobs");
  addListCommand(approval, "list", "list jobs that await approval, newest first").action(async (options: PageOptions) =>
    exit(await listApprovals(io, client(), options)),
  );
  addCommand(approval, "approve", "approve a job")
    .argument("<id>", "job id")
    .option("--note <text>", "note for the audit log")
    .option("--job-hash <hash>", "approve only if the job still has this hash")
    .option("--snapshot <hash>", "approve only if this policy snapshot requested the approval")
    .action(async (id: string, options: ApproveOptions) => exit(await approveJob(io, client(), id, options)));
  addCommand(approval, "reveal", "print the hidden values of a job that awaits approval; recorded in the audit log")
    .argument("<id>", "job id")
    .requiredOption("--reason <text>", "reason for the audit log")
    .action(async (id: string, options: RejectOptions) => exit(await revealJob(io, client(), id, options)));
  addCommand(approval, "reject", "reject a job; it ends as DENIED")
    .argument("<id>", "job id")
    .requiredOption("--reason <text>", "reason for the audit log")
    .action(async (id: string, options: RejectOptions) => exit(await rejectJob(io, client(), id, options)));
}

async function listApprovals(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.request("GET /approvals", { query: { limit, cursor } }), options, {
    headers: ["JOB", "TOPIC", "SUBMITTED BY", "EXPIRES", "RULE", "REASON", "HIDDEN", "INPUT"],
    row: (job) => [
      job.job_id,
      job.topic,
      job.caller?.name ?? job.submitted_by,
      job.expires_at,
      job.rule_id,
      job.reason,
      // Other versions may lack it.
      truncated((job.hidden ?? []).join(" ")) || "–",
      truncated(JSON.stringify(job.input)),
    ],
    command: "approval list",
  });
}

interface ApproveOptions {
  readonly json?: boolean;
  readonly note?: string;
  readonly jobHash?: string;
  readonly snapshot?: string;
}

async function approveJob(io: Io, client: Client, id: string, options: ApproveOptions): Promise<ExitCode> {
  const body = { note: options.note, job_hash: options.jobHash, snapshot: options.snapshot };
  const moved = await client.approvals.approve(id, body);
  if (options.json) printJson(io, moved);
  else io.out(`job ${moved.job_id} approved, state ${moved.state}\n`);
  return EXIT.ok;
}

/** A JSON document, like the input itself. */
async function revealJob(io: Io, client: Client, id: string, { reason }: RejectOptions): Promise<ExitCode> {
  printJson(io, await client.approvals.reveal(id, { reason }));
  return EXIT.ok;
}

interface RejectOptions {
  readonly json?: boolean;
  readonly reason: string;
}

async function rejectJob(io: Io, client: Client, id: string, options: RejectOptions): Promise<ExitCode> {
  const moved = await client.approvals.reject(id, { reason: options.reason });
  if (options.json) printJson(io, moved);
  else io.out(`job ${moved.job_id} rejected, state ${moved.state}\n`);
  return EXIT.ok;
}

/** `job get` shows the whole input. */
function truncated(text: string): string {
  return text.length > INPUT_LENGTH_MAX ? `${text.slice(0, INPUT_LENGTH_MAX)}…` : text;
}

const INPUT_LENGTH_MAX = 200;
