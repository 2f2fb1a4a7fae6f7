/** `cordum approval …`: the jobs that wait for a human, and the human's word. */
import { type Client, pathTo } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, showPage } from "../table.ts";

export async function listApprovals(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.get("/approvals", { limit, cursor }), options, {
    headers: ["JOB", "TOPIC", "SUBMITTED BY", "EXPIRES", "RULE", "REASON", "INPUT"],
    row: (job) => [
      job.job_id,
      job.topic,
      job.submitted_by,
      job.expires_at,
      job.rule_id,
      job.reason,
      shortened(JSON.stringify(job.input)),
    ],
    command: "approval list",
  });
}

export interface ApproveOptions {
  readonly json?: boolean;
  readonly note?: string;
  readonly jobHash?: string;
  readonly snapshot?: string;
}

export async function approveJob(io: Io, client: Client, id: string, options: ApproveOptions): Promise<ExitCode> {
  const body = { note: options.note, job_hash: options.jobHash, snapshot: options.snapshot };
  const moved = await client.post(`${pathTo("approvals", id)}/approve`, body);
  if (options.json) printJson(io, moved);
  else io.out(`job ${moved.job_id} is approved and ${moved.state}\n`);
  return EXIT.ok;
}

export interface RejectOptions {
  readonly json?: boolean;
  readonly reason: string;
}

export async function rejectJob(io: Io, client: Client, id: string, options: RejectOptions): Promise<ExitCode> {
  const moved = await client.post(`${pathTo("approvals", id)}/reject`, { reason: options.reason });
  if (options.json) printJson(io, moved);
  else io.out(`job ${moved.job_id} is rejected and ${moved.state}\n`);
  return EXIT.ok;
}

/** Enough to know which job it is; `job get` shows it whole. */
function shortened(text: string): string {
  return text.length > INPUT_LENGTH_MAX ? `${text.slice(0, INPUT_LENGTH_MAX)}…` : text;
}

const INPUT_LENGTH_MAX = 200;
