/** `cordum workflow …`: what the commands do. */
import { type Client, type Json, pathTo } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { shapeOf } from "../run/run-view.ts";
import { type PageOptions, printable, showPage, textFields, textTable } from "../table.ts";
import { readText } from "../up/load-policy.ts";

/** One file after the other; one that is wrong keeps no other from being applied. */
export async function applyWorkflows(
  io: Io,
  client: Client,
  files: readonly string[],
  json: boolean,
): Promise<ExitCode> {
  const applied: Json[] = [];
  const refused: Refused[] = [];
  for (const file of files) {
    try {
      const source = file === "-" ? io.readStdin() : readText(file, "the workflow", "cordum workflow apply --help");
      const answer = await client.post("/workflows", { source, file: file === "-" ? "stdin" : file });
      applied.push({ file, ...answer });
      const what = answer.created === false ? "has not changed" : "is new";
      if (!json) io.out(`workflow ${answer.workflow_id}: version ${answer.version} ${what}\n`);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      refused.push({ file, error });
      // Not about the file: the next one would be refused, too.
      if (error.exitCode !== EXIT.usage) break;
    }
  }
  const [first] = refused;
  if (first !== undefined) throw refusalOf(first, refused, applied);
  if (json) printJson(io, { items: applied });
  return EXIT.ok;
}

export async function getWorkflow(
  io: Io,
  client: Client,
  id: string,
  options: { readonly json?: boolean; readonly version?: number },
): Promise<ExitCode> {
  const version = options.version === undefined ? undefined : String(options.version);
  const workflow = await client.get(pathTo("workflows", id), { version });
  if (options.json) printJson(io, workflow);
  else io.out(describeWorkflow(workflow));
  return EXIT.ok;
}

export async function listWorkflows(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.get("/workflows", { limit, cursor }), options, {
    headers: ["WORKFLOW", "VERSION", "APPLIED", "NAME"],
    row: (one) => [one.workflow_id, String(one.version), one.updated_at ?? one.created_at, one.name ?? ""],
    command: "workflow list",
  });
}

export async function deleteWorkflow(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const deleted = await client.delete(pathTo("workflows", id));
  if (json) printJson(io, deleted);
  else io.out(`workflow ${printable(deleted.workflow_id ?? id)} is deleted; runs that have begun go on\n`);
  return EXIT.ok;
}

interface Refused {
  readonly file: string;
  readonly error: CliError;
}

/** What is wrong with each file, as one error; with `--json` also what was applied. */
function refusalOf(first: Refused, refused: readonly Refused[], applied: readonly Json[]): CliError {
  const lines = refused.flatMap(({ file, error }) => {
    const problems: unknown = error.fields.problems;
    if (Array.isArray(problems) && problems.length > 0) return problems.map(String);
    return [error.message.includes(file) ? error.message : `${file}: ${error.message}`];
  });
  const message = `${refused.length === 1 ? "a workflow was" : "workflows were"} not applied:`;
  const facts = { ...first.error.fields, problems: lines, applied };
  // Once it is mended.
  const again = /^[\w./-]+$/.test(first.file) && first.file !== "-" ? `cordum workflow apply ${first.file}` : null;
  return new CliError(first.error.exitCode, [message, ...lines].join("\n  "), first.error.next ?? again, facts);
}

function describeWorkflow(workflow: Json): string {
  const definition = workflow.definition ?? workflow.document ?? {};
  const facts: [string, string][] = [
    ["workflow", workflow.workflow_id],
    ["version", String(workflow.version)],
  ];
  if (definition.name) facts.push(["name", definition.name]);
  if (definition.description) facts.push(["about", definition.description]);
  if (definition.timeout_sec) facts.push(["timeout", `${definition.timeout_sec} s`]);
  if (workflow.created_at) facts.push(["applied", workflow.created_at]);
  if (workflow.created_by) facts.push(["by", workflow.created_by]);
  const rows = [...shapeOf(definition)].map(([id, { type, dependsOn }]) => {
    const step = definition.steps[id];
    return [id, type ?? "", dependsOn.join(", "), doesWhat(step)];
  });
  return `${textFields(facts)}\n${textTable(["STEP", "TYPE", "AFTER", "DOES"], rows)}`;
}

function doesWhat(step: Json): string {
  const what =
    step.topic ??
    step.workflow ??
    step.message ??
    step.reason ??
    step.switch ??
    (step.type === "condition" ? step.condition : undefined) ??
    (step.delay_sec === undefined ? step.delay_until : `${step.delay_sec} s`) ??
    (Array.isArray(step.branches) ? step.branches.join(", ") : undefined) ??
    "";
  return step.for_each === undefined ? String(what) : `${what} for each of ${step.for_each}`;
}
