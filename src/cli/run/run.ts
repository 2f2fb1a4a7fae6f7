import { randomUUID } from "node:crypto";
import { type Command, Option } from "commander";
import { RUN_STATES } from "../../core/model/run.ts";
import { describeCompensation } from "../../core/model/runs/compensation.ts";
import type { Client, Json } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, pair, whole } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { describeApproval, type PageOptions, plural, showPage, textFields, textTable } from "../table.ts";
import { drawRun } from "./draw-run.ts";
import { type RerunOptions, readInput, rerun, type StartOptions, startRun } from "./run-start.ts";
import { drawOptions, fetchRun, fetchShape, pictureOf } from "./run-view.ts";
import { watchRun } from "./run-watch.ts";

export function addRun(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const run = addGroup(program, "run", "start, inspect and control workflow runs");
  addStart(run, context);
  addCommand(run, "get", "show a run with its step graph")
    .argument("<id>", "run id")
    .action(async (id: string, options: JsonOption) => exit(await getRun(io, client(), id, options.json === true)));
  addListCommand(run, "list", "list runs, newest first")
    .addOption(new Option("--state <state>", "filter by state").choices(RUN_STATES))
    .action(async (options: ListOptions) => exit(await listRuns(io, client(), options)));
  addCommand(run, "watch", "follow a run until it has ended; exit 1 unless it succeeded")
    .argument("<id>", "run id")
    .action(async (id: string, options: JsonOption) => exit(await watchRun(io, client(), id, options.json === true)));
  addControl(run, context, "cancel", "cancel a run with its jobs and sub-runs");
  addControl(run, context, "pause", "pause a run: start no new steps; running steps finish");
  addControl(run, context, "resume", "resume a paused run");
  addEvent(run, context);
  addRerun(run, context);
  addListCommand(run, "timeline", "list the events of a run, oldest first")
    .argument("<id>", "run id")
    .action(async (id: string, options: PageOptions) => exit(await showTimeline(io, client(), id, options)));
  addCommand(run, "explain", "explain what each step waits for and how to unblock it")
    .argument("<id>", "run id")
    .action(async (id: string, options: JsonOption) => exit(await explainRun(io, client(), id, options.json === true)));
}

interface JsonOption {
  readonly json?: boolean;
}

function addStart(run: Command, { io, client, exit }: CommandContext): void {
  addCommand(run, "start", "start a run of a workflow")
    .argument("<workflow>", "workflow id")
    .argument("[input]", "input as JSON; `@file` reads a file, `-` reads stdin")
    .option("--key <key>", "idempotency key; a repeated start with the same key returns the same run")
    .option("--label <key=value>", "label; repeatable", pair, {})
    .addOption(new Option("--priority <priority>", "priority of the run").choices(["interactive", "batch", "critical"]))
    .option("--version <n>", "workflow version (default: latest)", whole)
    .option("--wait", "wait until the run has ended and print its output; exit 1 unless it succeeded")
    .option("--watch", "follow the run like `run watch`")
    .option("--dry-run", "start nothing; show the policy decision for each step")
    .action(async (workflow: string, input: string | undefined, options: StartOptions) =>
      exit(await startRun(io, client(), workflow, input, options)),
    );
}

function addRerun(run: Command, { io, client, exit }: CommandContext): void {
  addCommand(run, "rerun", "start a new run from a step of an ended run; earlier steps keep their results")
    .argument("<id>", "run id")
    .requiredOption("--from <step>", "step to start from")
    .option("--key <key>", "idempotency key; a repeated rerun with the same key returns the same run")
    .option("--dry-run", "start nothing; show the policy decision for each step")
    .option("--keep-approvals", "keep the approvals before the step instead of asking again; for operators, audited")
    .action(async (id: string, options: RerunOptions) => exit(await rerun(io, client(), id, options)));
}

function addEvent(run: Command, { io, client, exit }: CommandContext): void {
  addCommand(run, "event", "send an event to a run; a `wait` step takes it, or it is kept until one does")
    .argument("<id>", "run id")
    .argument("<name>", "name of the event")
    .argument("[data]", "data as JSON; `@file` reads a file, `-` reads stdin")
    .option("--correlation-key <key>", "key for steps with `correlate`")
    .option("--event-id <id>", "id of the event; a repeated event with the same id changes nothing")
    .action(async (id: string, name: string, data: string | undefined, options: EventOptions) =>
      exit(await sendEvent(io, client(), { id, name, data }, options)),
    );
}

function addControl(run: Command, { io, client, exit }: CommandContext, action: RunAction, description: string): void {
  const command = addCommand(run, action, description)
    .argument("<id>", "run id")
    .option("--reason <text>", "reason for the audit log");
  if (action === "cancel")
    command.option("--no-compensate", "do not undo completed steps; also stops the compensation of an ending run");
  command.action(async (id: string, options: ControlOptions) =>
    exit(await controlRun(io, client(), action, id, options)),
  );
}

async function getRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  if (json) {
    printJson(io, await client.runs.get(id));
    return EXIT.ok;
  }
  const seen = await fetchRun(client, id);
  const picture = pictureOf(io, seen, await fetchShape(client, seen.view));
  io.out(describeRun(seen.view));
  io.out(`\n${drawRun(picture, drawOptions(io, null)).join("\n")}\n`);
  return EXIT.ok;
}

interface ListOptions extends PageOptions {
  readonly state?: string;
}

async function listRuns(io: Io, client: Client, options: ListOptions): Promise<ExitCode> {
  const { state, limit, cursor } = options;
  return showPage(io, await client.request("GET /workflow-runs", { query: { state, limit, cursor } }), options, {
    headers: ["RUN", "STATE", "WORKFLOW", "VERSION", "STARTED", "UPDATED", "STEPS"],
    row: (run) => [
      run.run_id,
      run.state,
      run.workflow_id,
      String(run.version),
      run.created_at,
      run.updated_at,
      countsOf(run.step_counts),
    ],
    command: `run list${state === undefined ? "" : ` --state ${state}`}`,
  });
}

type RunAction = "cancel" | "pause" | "resume";

interface ControlOptions {
  readonly json?: boolean;
  readonly reason?: string;
  readonly compensate?: boolean;
}

async function controlRun(
  io: Io,
  client: Client,
  action: RunAction,
  id: string,
  options: ControlOptions,
): Promise<ExitCode> {
  const { reason, compensate } = options;
  const moved =
    action === "cancel"
      ? await client.runs.cancel(id, { reason, ...(compensate === false && { compensate }) })
      : await client.runs[action](id, { reason });
  if (options.json) printJson(io, moved);
  else io.out(`run ${moved.run_id ?? id} is now ${moved.state}\n`);
  return EXIT.ok;
}

interface EventOptions extends JsonOption {
  readonly correlationKey?: string;
  readonly eventId?: string;
}

async function sendEvent(
  io: Io,
  client: Client,
  { id, name, data }: { readonly id: string; readonly name: string; readonly data: string | undefined },
  { json, correlationKey, eventId }: EventOptions,
): Promise<ExitCode> {
  // A random id makes retries of the client safe.
  const body = {
    name,
    data: readInput(io, data, `cordum run event RUN NAME '{"hello":"world"}'`) ?? null,
    event_id: eventId ?? randomUUID(),
  };
  const accepted = await client.runs.sendEvent(id, { ...body, correlation_key: correlationKey });
  const { outcome, step_id } = accepted;
  if (json) printJson(io, accepted);
  else if (outcome === "delivered") io.out(`step ${step_id} took event ${name}\n`);
  else if (outcome === "kept") io.out(`no step waits for event ${name} yet; the run keeps it\n`);
  else io.out(`event ${name} was accepted before; nothing changed\n`);
  return EXIT.ok;
}

async function showTimeline(io: Io, client: Client, id: string, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  const args = { path: { id }, query: { limit, cursor } };
  return showPage(io, await client.request("GET /workflow-runs/{id}/timeline", args), options, {
    headers: ["SEQ", "AT", "EVENT", "STEP", "ACTOR", "CAUSE", "REASON"],
    row: (line) => [
      String(line.seq),
      line.at,
      line.event,
      stepOf(line),
      line.who_name ?? line.who ?? "",
      line.cause === null || line.cause === undefined ? "" : String(line.cause),
      line.why ?? "",
    ],
    command: `run timeline ${id}`,
  });
}

async function explainRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const explained = await client.runs.explain(id);
  if (json) {
    printJson(io, explained);
    return EXIT.ok;
  }
  io.out(`run ${explained.run_id}: ${explained.state}\n`);
  const rows = explained.waits.map((line: Json) => [
    line.step_id ?? "(run)",
    line.state,
    line.reason,
    line.until ?? "",
    String(line.unblocks ?? "").replace(/\bcordum (?=[a-z])/g, `${io.command} `),
  ]);
  if (rows.length > 0) io.out(`\n${textTable(["STEP", "STATE", "WAITING FOR", "UNTIL", "NEXT"], rows)}`);
  else io.err("no waits\n");
  return EXIT.ok;
}

function countsOf(counts: Json): string {
  return Object.entries(counts ?? {})
    .map(([state, count]) => `${count} ${state}`)
    .join(", ");
}

function stepOf({ step_id, index }: Json): string {
  if (!step_id) return "";
  return index === null || index === undefined ? step_id : `${step_id}.${index}`;
}

function describeRun(run: Json): string {
  const fields: [string, string][] = [
    ["run", run.run_id],
    ["workflow", `${run.workflow_id}, version ${run.version}`],
    ["state", run.state],
    ["started", run.created_at],
    ["updated", run.updated_at],
    ["deadline", run.deadline],
  ];
  const labels = Object.entries(run.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  if (labels.length > 0) fields.push(["labels", labels.join(", ")]);
  if (run.parent) fields.push(["parent", `a step of run ${run.parent.run_id ?? run.parent}`]);
  if (run.rerun_of) fields.push(["rerun of", `run ${run.rerun_of.run_id}, from step ${run.rerun_of.from_step}`]);
  if (run.lock) fields.push(["lock", lockOf(run.lock)]);
  for (const [id, { approval = null }] of Object.entries<Json>(run.steps ?? {})) {
    if (approval?.decided_by) fields.push(["approval", `${id} ${describeApproval(approval)}`]);
  }
  fields.push(["input", JSON.stringify(run.input)], ["output", JSON.stringify(run.output)]);
  if (run.error) fields.push(["error", run.error.message]);
  else if (run.ends_with) fields.push(["ends with", run.ends_with.message]);
  if (run.compensation) fields.push(["compensation", describeCompensation(run.compensation)]);
  return textFields(fields);
}

function lockOf({ holder, waited_ms, attempts }: Json): string {
  return `last held by ${holder}, after ${waited_ms ?? 0} ms and ${plural(attempts ?? 1, "attempt")}`;
}
