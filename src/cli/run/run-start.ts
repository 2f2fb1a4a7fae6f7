/** `cordum run start` and `cordum run rerun`: runs that begin, or what would become of them. */
import { randomUUID } from "node:crypto";
import { type Client, type Json, pathTo, retryWhileUnavailable } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { printable, textTable } from "../table.ts";
import { readText } from "../up/load-policy.ts";
import { lasting } from "./draw-run-text.ts";
import { exitCodeOf } from "./run-view.ts";
import { followRun, Nudges, sayEnd, watchRun } from "./run-watch.ts";

export interface StartOptions {
  readonly json?: boolean;
  readonly key?: string;
  readonly label: Readonly<Record<string, string>>;
  readonly priority?: string;
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
  const path = pathTo("workflows", workflow);
  const { version, label: labels, priority } = options;
  if (options.dryRun) {
    // Policies look at labels as well.
    const named = Object.keys(labels).length > 0 ? { labels } : {};
    const dry = await client.post(`${path}/dry-run`, { input, version, ...named, priority });
    return showDry(io, dry, options.json === true);
  }
  const isFollowed = options.wait === true || options.watch === true;
  // With a key it may be sent again where the answer to the first time was "later": it is one run all the same.
  const key = options.key ?? (isFollowed ? randomUUID() : undefined);
  const body = { input, version, labels, priority, idempotency_key: key };
  const start = () => client.post(`${path}/runs`, body);
  const started = isFollowed ? await retryWhileUnavailable(io, Number.POSITIVE_INFINITY, start) : await start();
  if (options.watch) return watchRun(io, client, started.run_id, options.json === true);
  if (options.wait) return waitForRun(io, client, started.run_id, options.json === true);
  return showStarted(io, started, options.json === true);
}

export interface RerunOptions {
  readonly json?: boolean;
  readonly from: string;
  readonly key?: string;
  readonly dryRun?: boolean;
}

export async function rerun(io: Io, client: Client, id: string, options: RerunOptions): Promise<ExitCode> {
  const body = { from_step: options.from, dry_run: options.dryRun, idempotency_key: options.key };
  const answer = await client.post(`${pathTo("workflow-runs", id)}/rerun`, body);
  return options.dryRun ? showDry(io, answer, options.json === true) : showStarted(io, answer, options.json === true);
}

function showStarted(io: Io, started: Json, json: boolean): ExitCode {
  if (json) printJson(io, started);
  else io.out(`${started.run_id}\n`);
  if (started.replayed === true) io.err("this key started it before; nothing new was started\n");
  else if (io.isInteractive && !json)
    io.err(`started; \`${io.command} run watch ${started.run_id}\` shows how it goes\n`);
  return EXIT.ok;
}

/** Through approvals and delays, until it has ended; then its output. */
async function waitForRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const progress = new ProgressLine(io);
  const startedMs = io.nowMs();
  const asked = new Set<string>();
  const nudges = new Nudges(client, id);
  try {
    const ended = await followRun(io, client, id, nudges, ({ view }) => {
      const steps = Object.entries<Json>(view.steps ?? {});
      for (const [stepId, { type, state, job_id }] of steps) {
        if (type !== "approval" || state !== "RUNNING" || asked.has(stepId)) continue;
        asked.add(stepId);
        progress.clear();
        const next = job_id ? `approval approve ${job_id}` : "approval list";
        io.err(`step ${printable(stepId)} waits for a human\nnext: ${io.command} ${next}\n`);
      }
      const done = steps.filter(([, { state }]) => state !== "PENDING" && state !== "RUNNING").length;
      progress.show(`${view.state}, ${done} of ${steps.length} steps, ${lasting(io.nowMs() - startedMs)}`);
    });
    progress.clear();
    if (json) printJson(io, ended);
    sayEnd(io, ended);
    if (!json && ended.state === "SUCCEEDED") printJson(io, ended.output);
    return exitCodeOf(ended.state);
  } finally {
    progress.clear();
    nudges.stop();
  }
}

/** What the policy would say about each step; nothing was started. */
function showDry(io: Io, dry: Json, json: boolean): ExitCode {
  if (json) printJson(io, dry);
  else {
    const rows = dry.steps.map((step: Json) => [
      step.step_id,
      step.type,
      step.topic ?? "",
      (step.depends_on ?? []).join(", "),
      verdictOf(step),
      dryInputOf(step),
    ]);
    io.out(textTable(["STEP", "TYPE", "TOPIC", "AFTER", "POLICY", "INPUT"], rows));
    io.err(`nothing was started; this is version ${dry.version} of workflow ${printable(dry.workflow_id)}\n`);
  }
  const isAsked = dry.steps.every((step: Json) => !step.unavailable);
  if (!isAsked) io.err(`the safety kernel did not answer for every step\nnext: ${io.command} doctor\n`);
  return isAsked ? EXIT.ok : EXIT.unavailable;
}

function dryInputOf({ problem, input, input_known }: Json): string {
  if (problem) return `fails: ${problem}`;
  return input_known ? JSON.stringify(input) : "not known yet";
}

function verdictOf({ decision, unavailable }: Json): string {
  if (unavailable) return `unavailable: ${unavailable}`;
  if (!decision) return "not asked";
  const rule = decision.rule_id ? ` by ${decision.rule_id}` : "";
  return `${decision.decision}${rule}${decision.reason ? `: ${decision.reason}` : ""}`;
}

/** JSON from the command line, from a file (`@input.json`), or from stdin (`-`). */
function readInput(io: Io, text: string | undefined): unknown {
  if (text === undefined) return undefined;
  const help = `cordum run start WORKFLOW '{"hello":"world"}'`;
  const source =
    text === "-" ? io.readStdin() : text.startsWith("@") ? readText(text.slice(1), "the input", help) : text;
  try {
    return JSON.parse(source);
  } catch {
    const shown = source.length > 60 ? `${source.slice(0, 60)}…` : source;
    const advice = "a text needs its own quotes inside the shell's, a file an `@` before its name";
    throw new CliError(EXIT.usage, `the input \`${shown}\` is not JSON; ${advice}`, help);
  }
}
