import type { Command } from "commander";
import { CordumError } from "../../client/client-error.ts";
import { type Client, cliErrorFrom, type Json } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, whole } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { shapeOf } from "../run/run-view.ts";
import { type PageOptions, printable, showPage, textFields, textTable } from "../table.ts";
import { readText } from "../up/load-policy.ts";

export function addWorkflow(program: Command, { io, client, exit }: CommandContext): void {
  const workflow = addGroup(program, "workflow", "manage workflow definitions");
  addCommand(workflow, "apply", "create or update workflows; unchanged definitions get no new version")
    .argument("<file...>", "YAML or JSON files; `-` reads stdin")
    .action(async (files: readonly string[], options: { json?: boolean }) =>
      exit(await applyWorkflows(io, client(), files, options.json === true)),
    );
  addCommand(workflow, "get", "show a workflow")
    .argument("<id>", "workflow id")
    .option("--version <n>", "version (default: latest)", whole)
    .action(async (id: string, options: { json?: boolean; version?: number }) =>
      exit(await getWorkflow(io, client(), id, options)),
    );
  addListCommand(workflow, "list", "list workflows, newest first").action(async (options: PageOptions) =>
    exit(await listWorkflows(io, client(), options)),
  );
  addCommand(workflow, "delete", "delete a workflow; running runs continue")
    .argument("<id>", "workflow id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await deleteWorkflow(io, client(), id, options.json === true)),
    );
}

/** An invalid file does not prevent the other files from being applied. */
async function applyWorkflows(io: Io, client: Client, files: readonly string[], json: boolean): Promise<ExitCode> {
  const applied: Json[] = [];
  const failed: Failure[] = [];
  for (const file of files) {
    try {
      const source = file === "-" ? io.readStdin() : readText(file, "the workflow", "cordum workflow apply --help");
      const answer = await client.workflows.apply({ source, file: file === "-" ? "stdin" : file });
      applied.push({ file, ...answer });
      const what = answer.created === false ? "unchanged" : "created";
      if (!json) io.out(`workflow ${answer.workflow_id}: version ${answer.version} ${what}\n`);
    } catch (thrown) {
      const error = thrown instanceof CordumError ? cliErrorFrom(io, thrown) : thrown;
      if (!(error instanceof CliError)) throw error;
      failed.push({ file, error });
      // Other errors do not depend on the file.
      if (error.exitCode !== EXIT.usage) break;
    }
  }
  const [first] = failed;
  if (first !== undefined) throw failureOf(first, failed, applied);
  if (json) printJson(io, { items: applied });
  return EXIT.ok;
}

async function getWorkflow(
  io: Io,
  client: Client,
  id: string,
  options: { readonly json?: boolean; readonly version?: number },
): Promise<ExitCode> {
  const workflow = await client.workflows.get(id, { version: options.version });
  if (options.json) printJson(io, workflow);
  else io.out(describeWorkflow(workflow));
  return EXIT.ok;
}

async function listWorkflows(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.request("GET /workflows", { query: { limit, cursor } }), options, {
    headers: ["WORKFLOW", "VERSION", "APPLIED", "NAME"],
    row: (one) => [one.workflow_id, String(one.version), one.updated_at ?? one.created_at, one.name ?? ""],
    command: "workflow list",
  });
}

async function deleteWorkflow(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const deleted = await client.workflows.delete(id);
  if (json) printJson(io, deleted);
  else io.out(`workflow ${printable(deleted.workflow_id ?? id)} deleted; running runs continue\n`);
  return EXIT.ok;
}

interface Failure {
  readonly file: string;
  readonly error: CliError;
}

/** One error for all files; `--json` also lists the applied ones. */
function failureOf(first: Failure, failed: readonly Failure[], applied: readonly Json[]): CliError {
  const lines = failed.flatMap(({ file, error }) => {
    const problems: unknown = error.fields.problems;
    if (Array.isArray(problems) && problems.length > 0) return problems.map(String);
    return [error.message.includes(file) ? error.message : `${file}: ${error.message}`];
  });
  const message = `${failed.length === 1 ? "workflow" : "workflows"} not applied:`;
  const fields = { ...first.error.fields, problems: lines, applied };
  const again = /^[\w./-]+$/.test(first.file) && first.file !== "-" ? `cordum workflow apply ${first.file}` : null;
  return new CliError(first.error.exitCode, [message, ...lines].join("\n  "), first.error.next ?? again, fields);
}

function describeWorkflow(workflow: Json): string {
  const definition = workflow.definition ?? workflow.document ?? {};
  const facts: [string, string][] = [
    ["workflow", workflow.workflow_id],
    ["version", String(workflow.version)],
  ];
  if (definition.name) facts.push(["name", definition.name]);
  if (definition.description) facts.push(["description", definition.description]);
  if (definition.timeout_sec) facts.push(["timeout", `${definition.timeout_sec} s`]);
  if (workflow.created_at) facts.push(["applied", workflow.created_at]);
  if (workflow.created_by) facts.push(["by", workflow.created_by_name ?? workflow.created_by]);
  const rows = [...shapeOf(definition)].map(([id, { type, dependsOn }]) => {
    const step = definition.steps[id];
    return [id, type ?? "", dependsOn.join(", "), actionOf(step)];
  });
  return `${textFields(facts)}\n${textTable(["STEP", "TYPE", "DEPENDS ON", "ACTION"], rows)}`;
}

function actionOf(step: Json): string {
  const action =
    step.topic ??
    step.workflow ??
    step.message ??
    step.reason ??
    step.switch ??
    (step.type === "condition" ? step.condition : undefined) ??
    (step.delay_sec === undefined ? step.delay_until : `${step.delay_sec} s`) ??
    (Array.isArray(step.branches) ? step.branches.join(", ") : undefined) ??
    "";
  return step.for_each === undefined ? String(action) : `${action} for each of ${step.for_each}`;
}
