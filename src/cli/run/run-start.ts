/** `cordum run start` and `cordum run rerun`. */
import { randomUUID } from "node:crypto";
import type { StartRequest } from "../../client/schema.ts";
import { type Client, type Json, retryWhileUnavailable } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { printable, textTable } from "../table.ts";
import { readText } from "../up/load-policy.ts";
import { formatElapsed } from "./draw-run.ts";
import { exitCodeOf } from "./run-view.ts";
import { followRun, printEnd, RunEvents, watchRun } from "./run-watch.ts";

export interface StartOptions {
  readonly json?: boolean;
  readonly key?: string;
  readonly label: Readonly<Record<string, string>>;
  readonly priority?: StartRequest["priority"];
  readonly version?: number;
  readonly wait?: boolean;
  readonly watch?: boolean;
  readonly dryRun?: boolean;
}

export async function startRun(
  io: Io,
  client: Client,
  workflow: string,
  inputText: string | undefined,
  options: StartOptions,
): Promise<ExitCode> {
  const input = readInput(io, inputText);
  const { version, label: labels, priority } = options;
  if (options.dryRun) {
    // Policy rules may match labels.
    const named = Object.keys(labels).length > 0 ? { labels } : {};
    const dry = await client.workflows.dryRun(workflow, { input, version, ...named, priority });
    return showDryRun(io, dry, options.json === true);
  }
  const isWaiting = options.wait === true || options.watch === true;
  // The idempotency key makes the start safe to retry.
  const key = options.key ?? (isWaiting ? randomUUID() : undefined);
  const body = { input, version, labels, priority, idempotency_key: key };
  const start = () => client.runs.start(workflow, body);
  const started = isWaiting ? await retryWhileUnavailable(io, Number.POSITIVE_INFINITY, start) : await start();
  if (options.watch) return watchRun(io, client, started.run_id, options.json === true);
  if (options.wait) return waitForRun(io, client, started.run_id, options.json === true);
  return showStarted(io, started, options.json === true);
}

export interface RerunOptions {
  readonly json?: boolean;
  readonly from: string;
  readonly key?: string;
  readonly dryRun?: boolean;
  readonly keepApprovals?: boolean;
}

export async function rerun(io: Io, client: Client, id: string, options: RerunOptions): Promise<ExitCode> {
  const { from, dryRun, key, keepApprovals } = options;
  const body = { from_step: from, dry_run: dryRun, idempotency_key: key, keep_approvals: keepApprovals };
  const answer = await client.runs.rerun(id, body);
  return options.dryRun
    ? showDryRun(io, answer, options.json === true)
    : showStarted(io, answer, options.json === true);
}

function showStarted(io: Io, started: Json, json: boolean): ExitCode {
  if (json) printJson(io, started);
  else io.out(`${started.run_id}\n`);
  if (started.replayed === true) io.err("the idempotency key was used before; no new run was started\n");
  else if (io.isInteractive && !json) io.err(`run started\nnext: ${io.command} run watch ${started.run_id}\n`);
  return EXIT.ok;
}

async function waitForRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const progress = new ProgressLine(io);
  const startedMs = io.nowMs();
  const prompted = new Set<string>();
  const events = new RunEvents(client, id);
  try {
    const ended = await followRun(io, client, id, events, ({ view }) => {
      const steps = Object.entries<Json>(view.steps ?? {});
      for (const [stepId, { type, state, job_id }] of steps) {
        if (type !== "approval" || state !== "RUNNING" || prompted.has(stepId)) continue;
        prompted.add(stepId);
        progress.clear();
        const next = job_id ? `approval approve ${job_id}` : "approval list";
        io.err(`step ${printable(stepId)} awaits approval\nnext: ${io.command} ${next}\n`);
      }
      const done = steps.filter(([, { state }]) => state !== "PENDING" && state !== "RUNNING").length;
      progress.show(`${view.state}, ${done} of ${steps.length} steps, ${formatElapsed(io.nowMs() - startedMs)}`);
    });
    progress.clear();
    if (json) printJson(io, ended);
    printEnd(io, ended);
    if (!json && ended.state === "SUCCEEDED") printJson(io, ended.output);
    return exitCodeOf(ended.state);
  } finally {
    progress.clear();
    events.stop();
  }
}

function showDryRun(io: Io, dry: Json, json: boolean): ExitCode {
  if (json) printJson(io, dry);
  else {
    const rows = dry.steps.map((step: Json) => [
      step.step_id,
      step.type,
      step.topic ?? "",
      (step.depends_on ?? []).join(", "),
      decisionOf(step),
      dryInputOf(step),
    ]);
    io.out(textTable(["STEP", "TYPE", "TOPIC", "DEPENDS ON", "POLICY", "INPUT"], rows));
    io.err(`dry run of workflow ${printable(dry.workflow_id)}, version ${dry.version}; no run was started\n`);
  }
  const isChecked = dry.steps.every((step: Json) => !step.unavailable);
  if (!isChecked) io.err(`the safety kernel was unavailable for some steps\nnext: ${io.command} doctor\n`);
  return isChecked ? EXIT.ok : EXIT.unavailable;
}

function dryInputOf({ problem, input, input_known }: Json): string {
  if (problem) return `fails: ${problem}`;
  return input_known ? JSON.stringify(input) : "unknown before the run";
}

function decisionOf({ decision, unavailable }: Json): string {
  if (unavailable) return `unavailable: ${unavailable}`;
  if (!decision) return "not checked";
  const rule = decision.rule_id ? ` by ${decision.rule_id}` : "";
  return `${decision.decision}${rule}${decision.reason ? `: ${decision.reason}` : ""}`;
}

export function readInput(
  io: Io,
  text: string | undefined,
  help = `cordum run start WORKFLOW '{"hello":"world"}'`,
): unknown {
  if (text === undefined) return undefined;
  const source = text === "-" ? io.readStdin() : text.startsWith("@") ? readText(text.slice(1), "input", help) : text;
  try {
    return JSON.parse(source);
  } catch {
    const shown = source.length > 60 ? `${source.slice(0, 60)}…` : source;
    const advice = "a JSON string needs double quotes inside the shell quotes, a file name a leading `@`";
    throw new CliError(EXIT.usage, `input \`${shown}\` is not valid JSON; ${advice}`, help);
  }
}
