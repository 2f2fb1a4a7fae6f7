/** `cordum job …`: what the commands do. */
import { randomUUID } from "node:crypto";
import { isFinal, JOB_MOVES, type JobState } from "../../core/model/job.ts";
import { type Client, type Json, pathTo, retryWhileUnavailable } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { type PageOptions, plural, printable, showPage, textFields } from "../table.ts";

export interface SubmitOptions {
  readonly json?: boolean;
  readonly wait?: boolean;
  /** Give up waiting after so long; the job goes on. */
  readonly timeout?: number;
  readonly priority?: string;
  readonly label: Readonly<Record<string, string>>;
  readonly riskTag: readonly string[];
  readonly requires: readonly string[];
  readonly mcp: Readonly<Record<string, string>>;
  readonly capability?: string;
  readonly actor?: string;
  readonly actorType?: string;
  readonly pack?: string;
  readonly key?: string;
}

export async function submitJob(
  io: Io,
  client: Client,
  topic: string,
  inputText: string | undefined,
  options: SubmitOptions,
): Promise<ExitCode> {
  const body = bodyOf(topic, readInput(io, inputText), options);
  if (options.wait) return submitAndWait(io, client, body, options);
  const key = options.key === undefined ? {} : { "idempotency-key": options.key };
  const submitted = await client.post("/jobs", body, key);
  if (options.json) printJson(io, submitted);
  else io.out(`${submitted.job_id}\n`);
  if (submitted.status === "approval_required") sayApproval(io, submitted.job_id, submitted.reason);
  else if (io.isInteractive && !options.json) {
    io.err(`submitted; \`${io.command} job get ${submitted.job_id}\` shows what became of it\n`);
  }
  return EXIT.ok;
}

export async function getJob(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const job = await client.get(pathTo("jobs", id));
  if (json) printJson(io, job);
  else io.out(describeJob(job));
  return EXIT.ok;
}

export interface ListOptions extends PageOptions {
  readonly state?: string;
}

export async function listJobs(io: Io, client: Client, options: ListOptions): Promise<ExitCode> {
  const { state, limit, cursor } = options;
  return showPage(io, await client.get("/jobs", { state, limit, cursor }), options, {
    headers: ["JOB", "STATE", "TOPIC", "ATTEMPT", "CREATED", "WAITS FOR"],
    row: (job) => [job.job_id, job.state, job.topic, String(job.attempt), job.created_at, waitOf(job)],
    command: `job list${state === undefined ? "" : ` --state ${state}`}`,
  });
}

export interface CancelOptions {
  readonly json?: boolean;
  readonly reason?: string;
}

export async function cancelJob(io: Io, client: Client, id: string, options: CancelOptions): Promise<ExitCode> {
  const moved = await client.post(`${pathTo("jobs", id)}/cancel`, { reason: options.reason });
  if (options.json) printJson(io, moved);
  else io.out(`job ${moved.job_id} is ${moved.state}\n`);
  return EXIT.ok;
}

export async function explainJob(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const explained = await client.get(`${pathTo("jobs", id)}/explain`);
  if (json) printJson(io, explained);
  else io.out(describeWait(io, explained));
  return EXIT.ok;
}

function bodyOf(topic: string, input: unknown, options: SubmitOptions): object {
  return {
    topic,
    input,
    labels: options.label,
    risk_tags: options.riskTag,
    requires: options.requires,
    ...(Object.keys(options.mcp).length === 0 ? {} : { mcp: options.mcp }),
    priority: options.priority,
    capability: options.capability,
    actor_id: options.actor,
    actor_type: options.actorType,
    pack_id: options.pack,
  };
}

/** JSON from the command line, or from stdin when it is `-`. */
function readInput(io: Io, text: string | undefined): unknown {
  if (text === undefined) return null;
  const source = text === "-" ? io.readStdin() : text;
  try {
    return JSON.parse(source);
  } catch {
    const shown = source.length > 60 ? `${source.slice(0, 60)}…` : source;
    throw new CliError(
      EXIT.usage,
      `the input \`${shown}\` is not JSON; a text needs its own quotes inside the shell's`,
      `cordum job submit demo.echo '{"hello":"world"}'`,
    );
  }
}

async function submitAndWait(io: Io, client: Client, body: object, options: SubmitOptions): Promise<ExitCode> {
  const untilMs = options.timeout === undefined ? Number.POSITIVE_INFINITY : io.nowMs() + options.timeout;
  // With a key it may be sent again where the answer to the first time was "later": it is one job all the same.
  const key = { "idempotency-key": options.key ?? randomUUID() };
  const submitted = await retryWhileUnavailable(io, untilMs, () => client.post("/jobs", body, key));
  const job = await waitForEnd(io, client, String(submitted.job_id), untilMs);
  if (options.json) printJson(io, job);
  else {
    const error = job.error ? `: ${printable(job.error.message)}` : "";
    io.err(`job ${job.job_id} ${job.state} after ${plural(job.attempt, "attempt")}${error}\n`);
    if (job.state === "SUCCEEDED") printJson(io, job.result);
  }
  if (job.state !== "SUCCEEDED") io.err(`next: ${io.command} job explain ${job.job_id}\n`);
  return exitCodeFor(job.state);
}

/** Through retries and approvals, until it has ended or the time is up. */
async function waitForEnd(io: Io, client: Client, jobId: string, untilMs: number): Promise<Json> {
  const startedMs = io.nowMs();
  const progress = new ProgressLine(io);
  let isAsked = false;
  for (let round = 0; ; round += 1) {
    const job = await retryWhileUnavailable(io, untilMs, () => client.get(pathTo("jobs", jobId)));
    const waitedS = Math.round((io.nowMs() - startedMs) / 1_000);
    const isOver = !Object.hasOwn(JOB_MOVES, job.state) || isFinal(job.state as JobState);
    if (isOver || (job.state === "APPROVAL_REQUIRED" && !isAsked)) progress.clear();
    if (isOver) return job;
    if (job.state === "APPROVAL_REQUIRED" && !isAsked) sayApproval(io, jobId, job.safety?.reason);
    // Once more if it waits for another one later: what was approved may have changed.
    isAsked = job.state === "APPROVAL_REQUIRED";
    if (io.nowMs() >= untilMs) {
      progress.clear();
      const message = `job ${jobId} is still ${job.state}; it goes on without us`;
      const facts = { job_id: jobId, state: job.state };
      throw new CliError(EXIT.unavailable, message, `cordum job get ${jobId}`, facts);
    }
    const why = job.wait ? `, ${printable(waitOf(job))}` : "";
    progress.show(`${job.state}, ${plural(job.attempt, "attempt")}, ${waitedS} s${why}`);
    await io.sleep(Math.max(1, Math.min(POLL_MS_MAX, 20 * 1.3 ** round, untilMs - io.nowMs())));
  }
}

const POLL_MS_MAX = 500;

function sayApproval(io: Io, jobId: string, reason: unknown): void {
  const why = typeof reason === "string" ? `: ${printable(reason)}` : "";
  io.err(`job ${jobId} waits for approval${why}\nnext: ${io.command} approval approve ${jobId}\n`);
}

function exitCodeFor(state: string): ExitCode {
  if (state === "SUCCEEDED") return EXIT.ok;
  return state === "DENIED" ? EXIT.denied : EXIT.error;
}

function describeJob(job: Json): string {
  const facts: [string, string][] = [
    ["job", `${job.job_id} (${job.topic}, tenant ${job.tenant_id})`],
    ["state", `${job.state} after ${plural(job.attempt, "attempt")}`],
  ];
  if (job.wait) facts.push(["waits", `${waitOf(job)}, until ${job.wait.until} (${job.wait.policy})`]);
  else if (job.waits_for) facts.push(["waits for", job.waits_for]);
  if (job.safety) {
    const { decision, rule_id, reason } = job.safety;
    facts.push(["safety", `${decision} by ${rule_id ?? "the default"}: ${reason}`]);
  }
  if (job.approval) facts.push(["approval", approvalOf(job.approval)]);
  if (job.bypass) {
    const review = job.bypass.reviewed_by === null ? "not reviewed yet" : `reviewed by ${job.bypass.reviewed_by}`;
    facts.push(["bypassed", `${job.bypass.reason} (lease ${job.bypass.lease_id}, ${review})`]);
  }
  if (job.progress) facts.push(["progress", `${job.progress.percent ?? "?"} % ${job.progress.message ?? ""}`]);
  if (job.worker_id) facts.push(["worker", job.worker_id]);
  facts.push(["created", job.created_at], ["updated", job.updated_at]);
  for (const line of job.history ?? []) facts.push([`attempt ${line.attempt}`, eventOf(line)]);
  if (job.error) facts.push(["error", job.error.message]);
  facts.push(["input", JSON.stringify(job.input)], ["result", JSON.stringify(job.result)]);
  return textFields(facts);
}

function approvalOf(approval: Json): string {
  if (approval.decided_by !== null) return `decided by ${approval.decided_by} at ${approval.decided_at}`;
  return `asked for at ${approval.requested_at}, until ${approval.expires_at}`;
}

function eventOf({ event, who, why, delay_ms, retry_class, policy }: Json): string {
  const by = who === null ? "" : ` by ${who}`;
  const retry = delay_ms === null ? "" : `; again after ${delay_ms} ms (${retry_class}, ${policy})`;
  return `${event}${by}${why === null ? "" : `: ${why}`}${retry}`;
}

function describeWait(io: Io, { job_id, state, wait, sentence, unblocks }: Json): string {
  const facts: [string, string][] = [["job", `${job_id} is ${state}: ${sentence}`]];
  if (wait) {
    facts.push(["waits for", wait.reason], ["since", wait.since], ["until", wait.until]);
    if (wait.policy !== null) facts.push(["set by", wait.policy]);
  }
  for (const { what, command } of unblocks) {
    facts.push(["to do", command === null ? what : `${what}: ${command.replace(/^cordum\b/, io.command)}`]);
  }
  return textFields(facts);
}

function waitOf(job: Json): string {
  if (job.wait) return `${job.wait.retry_class}: ${job.wait.reason}`;
  return job.waits_for ?? "";
}
