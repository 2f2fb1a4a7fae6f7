import { randomUUID } from "node:crypto";
import { type Command, Option } from "commander";
import type { SubmitRequest } from "../../client/schema.ts";
import { isFinal, JOB_MOVES, type JobState } from "../../core/model/job.ts";
import { DETAIL_FIELDS } from "../../protocol/request-json.ts";
import { type Client, type Json, retryWhileUnavailable } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, collect, durationUpTo, pair } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { describeApproval, type PageOptions, plural, printable, showPage, textFields } from "../table.ts";
import { addBulkOptions, type BulkBody, type BulkFilter, type BulkOptions, flagsOf, runBulk } from "./bulk.ts";

export function addJob(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const job = addGroup(program, "job", "submit and inspect jobs");
  addSubmit(job, context);
  addCommand(job, "get", "show a job")
    .argument("<id>", "job id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await getJob(io, client(), id, options.json === true)),
    );
  addFilters(addListCommand(job, "list", "list jobs, newest first")).action(async (options: ListOptions) =>
    exit(await listJobs(io, client(), options)),
  );
  addCancel(job, context);
  addRetry(job, context);
  addCommand(job, "explain", "explain what a job waits for, until when, and how to unblock it")
    .argument("<id>", "job id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await explainJob(io, client(), id, options.json === true)),
    );
}

/** The server answers each combination from an index. */
function addFilters(command: Command): Command {
  return command
    .option("--state <state>", "only in this state, such as RETRYING")
    .option("--topic <topic>", "only of this topic")
    .option("--label <key=value>", "only with this label")
    .option("--since <time>", "only submitted since this time, or within a duration such as 15m")
    .option("--retrying", "only jobs that wait for a retry")
    .option("--class <class>", "only jobs that wait for a retry of this class, such as lock_busy");
}

interface Filters {
  readonly state?: string;
  readonly topic?: string;
  readonly label?: string;
  readonly since?: string;
  readonly retrying?: boolean;
  readonly class?: string;
}

const filterOf = ({ state, topic, label, since, retrying, class: retryClass }: Filters) => ({
  ...{ state, topic, label, since, retrying },
  class: retryClass,
});

function addCancel(job: Command, { io, client, exit }: CommandContext): void {
  const command = addCommand(job, "cancel", "cancel a job, or the open jobs of a query")
    .argument("[id]", "job id")
    .option("--reason <text>", "reason for the audit log")
    .option("--all", "all open jobs; filters alone select those that match");
  addBulkOptions(addFilters(command), "jobs").action(async (id: string | undefined, options: CancelOptions) => {
    const filter = filterOf(options);
    if (isQuery(id, filter, options.all)) {
      const { reason } = options;
      const send = (body: BulkBody) =>
        client().request("POST /jobs/bulk", { body: { ...body, action: "cancel", reason } });
      exit(
        await runBulk(
          io,
          { ...JOBS, action: "cancel", done: "cancelled", command: "job cancel", send },
          { options, filter },
        ),
      );
    } else exit(await cancelJob(io, client(), id ?? "", options));
  });
}

function addRetry(job: Command, { io, client, exit }: CommandContext): void {
  const command = addCommand(job, "retry", "retry a failed job, or those of a query, from their dead letters")
    .argument("[id]", "job id")
    .option("--all", "all failed jobs; filters alone select those that match");
  addBulkOptions(addFilters(command), "jobs").action(async (id: string | undefined, options: BulkOptions & Filters) => {
    const filter = filterOf(options);
    if (isQuery(id, filter, options.all)) {
      const send = (body: BulkBody) => client().request("POST /jobs/bulk", { body: { ...body, action: "retry" } });
      exit(
        await runBulk(
          io,
          { ...JOBS, action: "retry", done: "retried", command: "job retry", send },
          { options, filter },
        ),
      );
    } else exit(await retryJob(io, client(), id ?? "", options.json === true));
  });
}

/** Either an id or a query. */
function isQuery(id: string | undefined, filter: BulkFilter, all = false): boolean {
  const found = all || flagsOf(filter) !== "";
  if ((id === undefined) === found) return found;
  const message = id === undefined ? "missing job id, filter or --all" : "an id excludes --all and filters";
  throw new CliError(EXIT.usage, message, "cordum job list");
}

function addSubmit(job: Command, { io, client, exit }: CommandContext): void {
  addCommand(job, "submit", "submit a job")
    .argument("<topic>", "topic, such as demo.echo")
    .argument("[input]", "input as JSON; `-` reads stdin")
    .option("--wait", "wait until the job has ended, including retries and approvals, and print its result")
    .option(
      "--timeout <duration>",
      "with --wait: stop waiting after this time, such as 30s; the job continues",
      durationUpTo(DAY_MS),
    )
    .addOption(new Option("--priority <priority>", "priority of the job").choices(["interactive", "batch", "critical"]))
    .option("--label <key=value>", "label; repeatable", pair, {})
    .option("--risk-tag <tag>", "risk tag; repeatable", collect, [])
    .option("--requires <name>", "worker capability that the job requires; repeatable", collect, [])
    .option("--capability <name>", "capability that the job uses")
    .option("--actor <id>", "id of the actor")
    .addOption(new Option("--actor-type <type>", "type of the actor").choices(["human", "service"]))
    .option("--pack <id>", "pack id")
    .option("--mcp <part=name>", "server, tool, resource or action of an MCP call; repeatable", pair, {})
    .option("--key <key>", "idempotency key; a repeated submit with the same key returns the same job")
    .action(async (topic: string, input: string | undefined, options: SubmitOptions) =>
      exit(await submitJob(io, client(), topic, input, options)),
    );
}

const DAY_MS = 24 * 3_600_000;

interface SubmitOptions {
  readonly json?: boolean;
  readonly wait?: boolean;
  /** Stop waiting after this time; the job continues. */
  readonly timeout?: number;
  readonly priority?: SubmitRequest["priority"];
  readonly label: Readonly<Record<string, string>>;
  readonly riskTag: readonly string[];
  readonly requires: readonly string[];
  readonly mcp: Readonly<Record<string, string>>;
  readonly capability?: string;
  readonly actor?: string;
  readonly actorType?: SubmitRequest["actor_type"];
  readonly pack?: string;
  readonly key?: string;
}

async function submitJob(
  io: Io,
  client: Client,
  topic: string,
  inputText: string | undefined,
  options: SubmitOptions,
): Promise<ExitCode> {
  const body = bodyOf(topic, readInput(io, inputText), options);
  if (options.wait) return submitAndWait(io, client, body, options);
  const submitted = await client.jobs.submit(body, { idempotencyKey: options.key });
  if (options.json) printJson(io, submitted);
  else io.out(`${submitted.job_id}\n`);
  if (submitted.status === "approval_required") promptApproval(io, submitted.job_id, submitted);
  else if (io.isInteractive && !options.json) {
    io.err(`job submitted\nnext: ${io.command} job get ${submitted.job_id}\n`);
  }
  return EXIT.ok;
}

async function getJob(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const job = await client.jobs.get(id);
  if (json) printJson(io, job);
  else io.out(describeJob(job));
  return EXIT.ok;
}

interface ListOptions extends PageOptions, Filters {}

async function listJobs(io: Io, client: Client, options: ListOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  const filter = filterOf(options);
  return showPage(io, await client.request("GET /jobs", { query: { ...filter, limit, cursor } }), options, {
    headers: JOBS.headers,
    row: JOBS.rowOf,
    command: `job list${flagsOf(filter)}`,
  });
}

const JOBS = {
  noun: "job",
  inspect: "job explain",
  headers: ["JOB", "STATE", "TOPIC", "ATTEMPT", "CREATED", "WAITING FOR"],
  rowOf: (job: Json) => [job.job_id, job.state, job.topic, String(job.attempt), job.created_at, waitOf(job)],
};

interface CancelOptions extends BulkOptions, Filters {
  readonly reason?: string;
}

async function retryJob(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const retried: Json = await client.deadLetters.retry(id);
  if (json) printJson(io, retried);
  else io.out(`job ${retried.job_id} retried, state ${retried.state}\n`);
  return EXIT.ok;
}

async function cancelJob(io: Io, client: Client, id: string, options: CancelOptions): Promise<ExitCode> {
  const moved = await client.jobs.cancel(id, { reason: options.reason });
  if (options.json) printJson(io, moved);
  else io.out(`job ${moved.job_id} cancelled, state ${moved.state}\n`);
  return EXIT.ok;
}

async function explainJob(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const explained = await client.jobs.explain(id);
  if (json) printJson(io, explained);
  else io.out(describeWait(io, explained));
  return EXIT.ok;
}

function bodyOf(topic: string, input: unknown, options: SubmitOptions): SubmitRequest {
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

function readInput(io: Io, text: string | undefined): unknown {
  if (text === undefined) return null;
  const source = text === "-" ? io.readStdin() : text;
  try {
    return JSON.parse(source);
  } catch {
    const shown = source.length > 60 ? `${source.slice(0, 60)}…` : source;
    throw new CliError(
      EXIT.usage,
      `input \`${shown}\` is not valid JSON; a JSON string needs double quotes inside the shell quotes`,
      `cordum job submit demo.echo '{"hello":"world"}'`,
    );
  }
}

async function submitAndWait(io: Io, client: Client, body: SubmitRequest, options: SubmitOptions): Promise<ExitCode> {
  const untilMs = options.timeout === undefined ? Number.POSITIVE_INFINITY : io.nowMs() + options.timeout;
  // The idempotency key makes the submit safe to retry.
  const idempotencyKey = options.key ?? randomUUID();
  const submit = () => client.jobs.submit(body, { idempotencyKey });
  const submitted = await retryWhileUnavailable(io, untilMs, submit);
  const job = await waitForEnd(io, client, submitted, untilMs);
  if (options.json) printJson(io, job);
  else {
    const error = job.error ? `: ${printable(job.error.message)}` : "";
    io.err(`job ${job.job_id} ${job.state} after ${plural(job.attempt, "attempt")}${error}\n`);
    if (job.state === "SUCCEEDED") printJson(io, job.result);
  }
  if (job.state !== "SUCCEEDED") io.err(`next: ${io.command} job explain ${job.job_id}\n`);
  return exitCodeFor(job.state);
}

async function waitForEnd(io: Io, client: Client, submitted: Json, untilMs: number): Promise<Json> {
  const jobId = String(submitted.job_id);
  const startedMs = io.nowMs();
  const progress = new ProgressLine(io);
  let isPrompted = false;
  for (let round = 0; ; round += 1) {
    const job = await retryWhileUnavailable(io, untilMs, () => client.jobs.get(jobId));
    const waitedS = Math.round((io.nowMs() - startedMs) / 1_000);
    const hasEnded = !Object.hasOwn(JOB_MOVES, job.state) || isFinal(job.state as JobState);
    if (hasEnded || (job.state === "APPROVAL_REQUIRED" && !isPrompted)) progress.clear();
    if (hasEnded) return job;
    if (job.state === "APPROVAL_REQUIRED" && !isPrompted)
      promptApproval(io, jobId, { ...submitted, reason: job.safety?.reason });
    // A later approval prompts again.
    isPrompted = job.state === "APPROVAL_REQUIRED";
    if (io.nowMs() >= untilMs) {
      progress.clear();
      const message = `stopped waiting; job ${jobId} is still ${job.state}`;
      const fields = { job_id: jobId, state: job.state };
      throw new CliError(EXIT.unavailable, message, `cordum job get ${jobId}`, fields);
    }
    const why = job.wait ? `, ${printable(waitOf(job))}` : "";
    progress.show(`${job.state}, ${plural(job.attempt, "attempt")}, ${waitedS} s${why}`);
    await io.sleep(Math.max(1, Math.min(POLL_MS_MAX, 20 * 1.3 ** round, untilMs - io.nowMs())));
  }
}

const POLL_MS_MAX = 500;

function promptApproval(io: Io, jobId: string, { reason, no_approver }: Json): void {
  const why = typeof reason === "string" ? `: ${printable(reason)}` : "";
  io.err(`job ${jobId} awaits approval${why}\n`);
  if (no_approver === undefined) {
    io.err(`next: ${io.command} approval approve ${jobId}\n`);
    return;
  }
  io.err("no API key can approve it: submitters cannot approve their own jobs; either\n");
  for (const { what, command } of no_approver.ways) {
    const next = command === null ? "" : `: ${command.replace(/^cordum\b/, io.command)}`;
    io.err(`  - ${printable(`${what}${next}`)}\n`);
  }
}

function exitCodeFor(state: string): ExitCode {
  if (state === "SUCCEEDED") return EXIT.ok;
  return state === "DENIED" ? EXIT.denied : EXIT.error;
}

function describeJob(job: Json): string {
  const fields: [string, string][] = [
    ["job", `${job.job_id} (${job.topic}, tenant ${job.tenant_id})`],
    ["state", `${job.state} after ${plural(job.attempt, "attempt")}`],
  ];
  if (job.wait) fields.push(["waiting for", `${waitOf(job)}, until ${job.wait.until} (${job.wait.policy})`]);
  else if (job.waits_for) fields.push(["waiting for", job.waits_for]);
  if (job.safety) {
    const { decision, rule_id, reason } = job.safety;
    fields.push(["safety", `${decision} by ${rule_id ?? "default decision"}: ${reason}`]);
    if (job.safety.time_dependent) fields.push(["decided for", job.safety.evaluated_at]);
    fields.push(...shadowFields(job.safety));
  }
  if (job.approval) fields.push(["approval", describeApproval(job.approval)]);
  if (job.bypass) {
    const review =
      job.bypass.reviewed_by === null
        ? "not reviewed"
        : `reviewed by ${job.bypass.reviewed_by_name ?? job.bypass.reviewed_by}`;
    fields.push(["bypassed", `${job.bypass.reason} (lease ${job.bypass.lease_id}, ${review})`]);
  }
  if (job.progress) fields.push(["progress", `${job.progress.percent ?? "?"} % ${job.progress.message ?? ""}`]);
  if (job.worker_id) fields.push(["worker", job.worker_id]);
  if (job.execution_ms !== undefined) fields.push(["took", `${job.execution_ms} ms`]);
  fields.push(["created", job.created_at], ["updated", job.updated_at]);
  for (const line of job.history ?? []) fields.push([`attempt ${line.attempt}`, eventOf(line)]);
  if (job.error) fields.push(["error", job.error.message]);
  for (const name of [...DETAIL_FIELDS, ...RESULT_FIELDS]) {
    if (job[name] !== undefined) fields.push([name.replaceAll("_", " "), textOf(job[name])]);
  }
  fields.push(["input", JSON.stringify(job.input)], ["result", JSON.stringify(job.result)]);
  return textFields(fields);
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** Optional fields of the last result. */
const RESULT_FIELDS = ["error_code", "error_code_enum", "artifact_ptrs"] as const;

function eventOf({ event, who, who_name: name, why, delay_ms, retry_class, policy }: Json): string {
  const by = who === null ? "" : ` by ${name ?? who}`;
  const retry = delay_ms === null ? "" : `; retry after ${delay_ms} ms (${retry_class}, ${policy})`;
  return `${event}${by}${why === null ? "" : `: ${why}`}${retry}`;
}

/** One line per budget and unit. */
function budgetLines(budgets: readonly Json[]): readonly string[] {
  return budgets.flatMap(({ rule_id, per, key, tokens, usd }) =>
    [
      ["tokens", tokens],
      ["USD", usd],
    ].flatMap(([unit, use]) =>
      use === undefined
        ? []
        : [`rule ${rule_id} per ${per}${key === "" ? "" : ` ${key}`}: ${use.remaining} of ${use.limit} ${unit} left`],
    ),
  );
}

/** What shadow rules would have decided. */
function shadowFields({ shadow = [] }: Json): [string, string][] {
  return shadow.map(({ decision, rule_id }: Json) => ["shadow", `${decision} by ${rule_id}`]);
}

function describeWait(io: Io, explained: Json): string {
  const { job_id, state, wait, sentence, unblocks, approval = null, budgets = [] } = explained;
  const fields: [string, string][] = [["job", `${job_id}, ${state}: ${sentence}`], ...shadowFields(explained)];
  if (approval?.decided_by) fields.push(["approval", describeApproval(approval)]);
  if (wait) {
    fields.push(["waiting for", wait.reason], ["since", wait.since], ["until", wait.until]);
    if (wait.policy !== null) fields.push(["policy", wait.policy]);
  }
  for (const line of budgetLines(budgets)) fields.push(["budget", line]);
  for (const { what, command } of unblocks) {
    fields.push(["next", command === null ? what : `${what}: ${command.replace(/^cordum\b/, io.command)}`]);
  }
  return textFields(fields);
}

function waitOf(job: Json): string {
  if (job.wait) return `${job.wait.retry_class}: ${job.wait.reason}`;
  return job.waits_for ?? "";
}
