/** `cordum failopen …`: the lever that lets jobs go while the safety kernel does not answer, and the review after it. */
import { type Client, type Json, pathTo } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, printable, showPage } from "../table.ts";

export interface OpenOptions {
  readonly json?: boolean;
  readonly reason: string;
  readonly scope?: string;
  readonly minutes?: number;
}

export async function openLease(io: Io, client: Client, options: OpenOptions): Promise<ExitCode> {
  const { scope, reason, minutes } = options;
  const lease = await client.post("/failopen", { scope, reason, minutes });
  if (options.json) printJson(io, lease);
  else io.out(`${lease.id}\n`);
  const whose = lease.scope === "*" ? "all tenants" : `tenant ${lease.scope}`;
  io.err(
    `jobs of ${whose} go out without a verdict while the safety kernel does not answer, until ${lease.ends_at}\n` +
      `to end it: ${io.command} failopen close ${lease.id}\nafter it: ${io.command} failopen bypassed\n`,
  );
  return EXIT.ok;
}

export async function listLeases(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.get("/failopen"), options, {
    headers: ["LEASE", "SCOPE", "STATE", "APPROVED BY", "ENDS", "REASON"],
    row: (lease) => [
      lease.id,
      lease.scope,
      lease.state,
      lease.approved_by,
      lease.ended_at ?? lease.ends_at,
      lease.reason,
    ],
    command: "failopen list",
  });
}

export async function closeLease(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const lease = await client.post(`${pathTo("failopen", id)}/close`, {});
  if (json) printJson(io, lease);
  else io.out(`lease ${lease.id} is over since ${lease.ended_at}; nothing more goes out under it\n`);
  return EXIT.ok;
}

export interface BypassedOptions extends PageOptions {
  readonly reviewed?: boolean;
}

export async function listBypassed(io: Io, client: Client, options: BypassedOptions): Promise<ExitCode> {
  const { limit, cursor, reviewed } = options;
  const page = await client.get("/failopen/bypassed", { limit, cursor, reviewed: reviewed ? "true" : undefined });
  return showPage(io, page, options, {
    headers: ["JOB", "TOPIC", "STATE", "BYPASSED", "LEASE", "REVIEW"],
    row: (job) => [job.job_id, job.topic, job.state, job.bypassed_at, job.lease_id, reviewOf(job)],
    command: `failopen bypassed${reviewed ? " --reviewed" : ""}`,
  });
}

export interface ReviewOptions {
  readonly json?: boolean;
  readonly note?: string;
}

export async function reviewBypass(io: Io, client: Client, id: string, options: ReviewOptions): Promise<ExitCode> {
  const job = await client.post(`${pathTo("failopen", "bypassed", id)}/review`, { note: options.note });
  if (options.json) printJson(io, job);
  else io.out(`job ${job.job_id} (${job.topic}, ${job.state}): ${printable(reviewOf(job))}\n`);
  return EXIT.ok;
}

function reviewOf({ reviewed_by, verdict, note }: Json): string {
  if (reviewed_by === null) return "not reviewed yet";
  const said = verdict === null ? "" : `; the policy says ${verdict.decision.toUpperCase()}: ${verdict.reason}`;
  return `reviewed by ${reviewed_by}${said}${note === null ? "" : `; ${note}`}`;
}
