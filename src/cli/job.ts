import { isFinal, JOB_MOVES, type JobState } from "../model/job.ts";
import type { Client, Json } from "./client.ts";
import { CliError, EXIT, type ExitCode } from "./exit.ts";
import { type Io, printJson } from "./io.ts";
import { textTable } from "./table.ts";

export interface SubmitOptions {
  readonly json?: boolean;
  readonly wait?: boolean;
  /** Give up waiting after so long; the job goes on. */
  readonly timeoutMs?: number;
  readonly priority?: string;
  readonly label: Readonly<Record<string, string>>;
  readonly riskTag: readonly string[];
  readonly capability?: string;
  readonly actor?: string;
  readonly key?: string;
}

export async function submitJob(
  io: Io,
  client: Client,
  topic: string,
  inputText: string | undefined,
  options: SubmitOptions,
): Promise<ExitCode> {
  const body = {
    topic,
    input: readInput(io, inputText),
    labels: options.label,
    risk_tags: options.riskTag,
    priority: options.priority,
    capability: options.capability,
    actor_id: options.actor,
  };
  const submitted = await client.post(
    "/jobs",
    body,
    options.key === undefined ? {} : { "idempotency-key": options.key },
  );
  const jobId = String(submitted.job_id);
  if (!options.wait) {
    if (options.json) printJson(io, submitted);
    else io.out(`${jobId}\n`);
    if (io.watched && !options.json) io.say(`submitted; \`${io.command} job get ${jobId}\` shows what became of it\n`);
    return EXIT.fine;
  }
  const job = await waitForEnd(io, client, jobId, options.timeoutMs);
  if (options.json) printJson(io, job);
  else {
    io.say(`job ${jobId} ${job.state} after ${attempts(job.attempt)}${job.error ? `: ${job.error.message}` : ""}\n`);
    if (job.state === "SUCCEEDED") printJson(io, job.result);
    else io.say(`next: ${io.command} job get ${jobId}\n`);
  }
  return exitCodeFor(job.state);
}

export async function getJob(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const job = await client.get(`/jobs/${encodeURIComponent(id)}`);
  if (json) printJson(io, job);
  else io.out(describeJob(job));
  return EXIT.fine;
}

export interface ListOptions {
  readonly json?: boolean;
  readonly state?: string;
  readonly limit?: string;
  readonly cursor?: string;
}

export async function listJobs(io: Io, client: Client, options: ListOptions): Promise<ExitCode> {
  const page = await client.get("/jobs", { state: options.state, limit: options.limit, cursor: options.cursor });
  if (options.json) {
    printJson(io, page);
    return EXIT.fine;
  }
  const rows = page.items.map((job: Json) => [
    job.job_id,
    job.state,
    job.topic,
    String(job.attempt),
    job.created_at,
    waitOf(job),
  ]);
  io.out(textTable(["JOB", "STATE", "TOPIC", "ATTEMPT", "CREATED", "WAITS FOR"], rows));
  const filter = options.state === undefined ? "" : ` --state ${options.state}`;
  if (page.next_cursor !== null) io.say(`more: ${io.command} job list${filter} --cursor ${page.next_cursor}\n`);
  return EXIT.fine;
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

async function waitForEnd(io: Io, client: Client, jobId: string, timeoutMs: number | undefined): Promise<Json> {
  const startedMs = Date.now();
  let shownLength = 0;
  for (let round = 0; ; round += 1) {
    const job = await client.get(`/jobs/${encodeURIComponent(jobId)}`);
    const waitedMs = Date.now() - startedMs;
    const isOver = !Object.hasOwn(JOB_MOVES, job.state) || isFinal(job.state as JobState);
    if (io.watched && (waitedMs > PROGRESS_AFTER_MS || (isOver && shownLength > 0))) {
      const line = isOver
        ? ""
        : `${job.state}, ${attempts(job.attempt)}, ${Math.round(waitedMs / 1_000)} s ${waitOf(job)}`;
      io.say(`\r${line.padEnd(shownLength)}\r`);
      shownLength = line.length;
    }
    if (isOver) return job;
    if (timeoutMs !== undefined && waitedMs >= timeoutMs) {
      const next = `cordum job get ${jobId}`;
      throw new CliError(EXIT.tryAgain, `job ${jobId} is still ${job.state}; it goes on without us`, next, {
        job_id: jobId,
      });
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(POLL_MS_MAX, 20 * 1.3 ** round)));
  }
}

const PROGRESS_AFTER_MS = 1_000;
const POLL_MS_MAX = 500;

function exitCodeFor(state: string): ExitCode {
  if (state === "SUCCEEDED") return EXIT.fine;
  return state === "DENIED" ? EXIT.denied : EXIT.error;
}

function describeJob(job: Json): string {
  const lines: [string, string][] = [
    ["job", `${job.job_id} (${job.topic}, tenant ${job.tenant_id})`],
    ["state", `${job.state} after ${attempts(job.attempt)}`],
  ];
  if (job.wait) lines.push(["waits", `${waitOf(job)}, until ${job.wait.until} (${job.wait.policy})`]);
  if (job.safety)
    lines.push(["safety", `${job.safety.decision} by ${job.safety.rule_id ?? "the default"}: ${job.safety.reason}`]);
  lines.push(["created", job.created_at], ["updated", job.updated_at]);
  for (const line of job.history ?? []) {
    const retry =
      line.delay_ms === null ? "" : `; again after ${line.delay_ms} ms (${line.retry_class}, ${line.policy})`;
    lines.push([`attempt ${line.attempt}`, `${line.outcome}${line.error ? `: ${line.error}` : ""}${retry}`]);
  }
  if (job.error) lines.push(["error", job.error.message]);
  lines.push(["input", JSON.stringify(job.input)], ["result", JSON.stringify(job.result)]);
  return lines.map(([key, text]) => `${key.padEnd(12)}${text}\n`).join("");
}

function waitOf(job: Json): string {
  return job.wait ? `${job.wait.retry_class}: ${job.wait.reason}` : "";
}

function attempts(count: number): string {
  return count === 1 ? "1 attempt" : `${count} attempts`;
}
