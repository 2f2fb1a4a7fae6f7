/** How the `workflow` commands are typed. */
import type { Command } from "commander";
import { addCommand, addGroup, addListCommand, type CommandContext, whole } from "../context.ts";
import type { PageOptions } from "../table.ts";
import { applyWorkflows, deleteWorkflow, getWorkflow, listWorkflows } from "./workflow.ts";

export function addWorkflow(program: Command, { io, client, exit }: CommandContext): void {
  const workflow = addGroup(program, "workflow", "the workflows that runs can be started of");
  addCommand(workflow, "apply", "make a workflow known, or a new version of it; the same again changes nothing")
    .argument("<file...>", "YAML or JSON; `-` reads it from stdin")
    .action(async (files: readonly string[], options: { json?: boolean }) =>
      exit(await applyWorkflows(io, client(), files, options.json === true)),
    );
  addCommand(workflow, "get", "show one workflow")
    .argument("<id>", "the workflow's id")
    .option("--version <n>", "an older version", whole)
    .action(async (id: string, options: { json?: boolean; version?: number }) =>
      exit(await getWorkflow(io, client(), id, options)),
    );
  addListCommand(workflow, "list", "list workflows, newest first").action(async (options: PageOptions) =>
    exit(await listWorkflows(io, client(), options)),
  );
  addCommand(workflow, "delete", "let nothing new be started of a workflow; runs that have begun go on")
    .argument("<id>", "the workflow's id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await deleteWorkflow(io, client(), id, options.json === true)),
    );
}
