/** `cordum run …`: what the commands that look at a run, or move it, do. */
import { type Client, type Json, pathTo } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, plural, showPage, textFields, textTable } from "../table.ts";
import { drawRun } from "./draw-run.ts";
import { lookOf, pictureOf, seeRun, stepsOf } from "./run-view.ts";

export async function getRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  if (json) {
    printJson(io, await client.get(pathTo("workflow-runs", id)));
    return EXIT.ok;
  }
  const seen = await seeRun(client, id);
  const picture = pictureOf(io, seen, await stepsOf(client, seen.view));
  io.out(describeRun(seen.view));
  io.out(`\n${drawRun(picture, lookOf(io, null)).join("\n")}\n`);
  return EXIT.ok;
}

export interface ListOptions extends PageOptions {
  readonly state?: string;
}

export async function listRuns(io: Io, client: Client, options: ListOptions): Promise<ExitCode> {
  const { state, limit, cursor } = options;
  return showPage(io, await client.get("/workflow-runs", { state, limit, cursor }), options, {
    headers: ["RUN", "STATE", "WORKFLOW", "VERSION", "STARTED", "CHANGED", "STEPS"],
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

export const RUN_ORDERS = ["cancel", "pause", "resume"] as const;
export type RunOrder = (typeof RUN_ORDERS)[number];

export interface OrderOptions {
  readonly json?: boolean;
  readonly reason?: string;
}

export async function orderRun(
  io: Io,
  client: Client,
  order: RunOrder,
  id: string,
  options: OrderOptions,
): Promise<ExitCode> {
  const moved = await client.post(`${pathTo("workflow-runs", id)}/${order}`, { reason: options.reason });
  if (options.json) printJson(io, moved);
  else io.out(`run ${moved.run_id ?? id} is ${moved.state}\n`);
  return EXIT.ok;
}

export async function showTimeline(io: Io, client: Client, id: string, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.get(`${pathTo("workflow-runs", id)}/timeline`, { limit, cursor }), options, {
    headers: ["LINE", "AT", "EVENT", "STEP", "WHO", "AFTER LINE", "WHY"],
    row: (line) => [
      String(line.seq),
      line.at,
      line.event,
      stepOf(line),
      line.who ?? "",
      line.cause === null || line.cause === undefined ? "" : String(line.cause),
      line.why ?? "",
    ],
    command: `run timeline ${id}`,
  });
}

export async function explainRun(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const explained = await client.get(`${pathTo("workflow-runs", id)}/explain`);
  if (json) {
    printJson(io, explained);
    return EXIT.ok;
  }
  io.out(`run ${explained.run_id} is ${explained.state}\n`);
  const rows = explained.waits.map((line: Json) => [
    line.step_id ?? "the run",
    line.state,
    line.reason,
    line.until ?? "",
    String(line.unblocks ?? "").replace(/\bcordum (?=[a-z])/g, `${io.command} `),
  ]);
  if (rows.length > 0) io.out(`\n${textTable(["STEP", "STATE", "WAITS FOR", "UNTIL", "TO DO"], rows)}`);
  else io.err("it waits for nothing\n");
  return EXIT.ok;
}

/** Steps that something has happened to. */
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
  const facts: [string, string][] = [
    ["run", run.run_id],
    ["workflow", `${run.workflow_id}, version ${run.version}`],
    ["state", run.state],
    ["started", run.created_at],
    ["changed", run.updated_at],
    ["deadline", run.deadline],
  ];
  const labels = Object.entries(run.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  if (labels.length > 0) facts.push(["labels", labels.join(", ")]);
  if (run.parent) facts.push(["for", `a step of run ${run.parent.run_id ?? run.parent}`]);
  if (run.rerun_of) facts.push(["again", `run ${run.rerun_of.run_id}, from step ${run.rerun_of.from_step}`]);
  if (run.lock) facts.push(["lock", lockOf(run.lock)]);
  facts.push(["input", JSON.stringify(run.input)], ["output", JSON.stringify(run.output)]);
  if (run.error) facts.push(["error", run.error.message]);
  return textFields(facts);
}

function lockOf({ holder, waited_ms, attempts }: Json): string {
  return `last held by ${holder}, after ${waited_ms ?? 0} ms and ${plural(attempts ?? 1, "attempt")}`;
}
