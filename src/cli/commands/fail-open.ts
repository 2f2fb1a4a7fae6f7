import type { Command } from "commander";
import { FAIL_OPEN_MS } from "../../core/model/fail-open.ts";
import type { Client, Json } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, whole } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, printable, showPage } from "../table.ts";

export function addFailOpen(program: Command, { io, client, exit }: CommandContext): void {
  const failOpen = addGroup(
    program,
    "failopen",
    "dispatch jobs without a safety check while the safety kernel is unavailable",
  );
  addCommand(failOpen, "open", "open a fail-open lease; it expires and is audited")
    .requiredOption("--reason <text>", "reason for the audit log")
    .option("--scope <tenant>", "tenant, or '*' for all tenants (default: your tenant)")
    .option(
      "--minutes <n>",
      `duration in minutes, 1 to ${FAIL_OPEN_MS.max / 60_000} (default: ${FAIL_OPEN_MS.default / 60_000})`,
      whole,
    )
    .action(async (options: OpenOptions) => exit(await openLease(io, client(), options)));
  addCommand(failOpen, "list", "list fail-open leases, newest first").action(async (options: PageOptions) =>
    exit(await listLeases(io, client(), options)),
  );
  addCommand(failOpen, "close", "close a fail-open lease")
    .argument("<id>", "lease id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await closeLease(io, client(), id, options.json === true)),
    );
  addListCommand(failOpen, "bypassed", "list jobs that were dispatched without a safety check and are not reviewed")
    .option("--reviewed", "list reviewed jobs instead")
    .action(async (options: BypassedOptions) => exit(await listBypassed(io, client(), options)));
  addCommand(failOpen, "review", "evaluate the current policy for a bypassed job and record the review")
    .argument("<id>", "job id")
    .option("--note <text>", "note for the audit log")
    .action(async (id: string, options: ReviewOptions) => exit(await reviewBypass(io, client(), id, options)));
}

interface OpenOptions {
  readonly json?: boolean;
  readonly reason: string;
  readonly scope?: string;
  readonly minutes?: number;
}

async function openLease(io: Io, client: Client, options: OpenOptions): Promise<ExitCode> {
  const { scope, reason, minutes } = options;
  const lease = await client.request("POST /failopen", { body: { scope, reason, minutes } });
  if (options.json) printJson(io, lease);
  else io.out(`${lease.id}\n`);
  const target = lease.scope === "*" ? "all tenants" : `tenant ${lease.scope}`;
  io.err(
    `jobs of ${target} are dispatched without a safety check while the kernel is unavailable, until ${lease.ends_at}\n` +
      `to close: ${io.command} failopen close ${lease.id}\nto review afterwards: ${io.command} failopen bypassed\n`,
  );
  return EXIT.ok;
}

async function listLeases(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.request("GET /failopen", {}), options, {
    headers: ["LEASE", "SCOPE", "STATE", "APPROVED BY", "ENDS", "REASON"],
    row: (lease) => [
      lease.id,
      lease.scope,
      lease.state,
      lease.approved_by_name ?? lease.approved_by,
      lease.ended_at ?? lease.ends_at,
      lease.reason,
    ],
    command: "failopen list",
  });
}

async function closeLease(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const lease = await client.request("POST /failopen/{id}/close", { path: { id } });
  if (json) printJson(io, lease);
  else io.out(`lease ${lease.id} closed at ${lease.ended_at}\n`);
  return EXIT.ok;
}

interface BypassedOptions extends PageOptions {
  readonly reviewed?: boolean;
}

async function listBypassed(io: Io, client: Client, options: BypassedOptions): Promise<ExitCode> {
  const { limit, cursor, reviewed } = options;
  const page = await client.request("GET /failopen/bypassed", {
    query: { limit, cursor, reviewed: reviewed ? "true" : undefined },
  });
  return showPage(io, page, options, {
    headers: ["JOB", "TOPIC", "STATE", "BYPASSED", "LEASE", "REVIEW"],
    row: (job) => [job.job_id, job.topic, job.state, job.bypassed_at, job.lease_id, reviewOf(job)],
    command: `failopen bypassed${reviewed ? " --reviewed" : ""}`,
  });
}

interface ReviewOptions {
  readonly json?: boolean;
  readonly note?: string;
}

async function reviewBypass(io: Io, client: Client, id: string, options: ReviewOptions): Promise<ExitCode> {
  const args = { path: { id }, body: { note: options.note } };
  const job = await client.request("POST /failopen/bypassed/{id}/review", args);
  if (options.json) printJson(io, job);
  else io.out(`job ${job.job_id} (${job.topic}, ${job.state}): ${printable(reviewOf(job))}\n`);
  return EXIT.ok;
}

function reviewOf({ reviewed_by, reviewed_by_name: name, verdict, note }: Json): string {
  if (reviewed_by === null) return "not reviewed";
  const decision = verdict === null ? "" : `; policy: ${verdict.decision.toUpperCase()}: ${verdict.reason}`;
  return `reviewed by ${name ?? reviewed_by}${decision}${note === null ? "" : `; ${note}`}`;
}
