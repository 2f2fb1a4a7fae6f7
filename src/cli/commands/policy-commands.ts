import type { Command } from "commander";
import { addCommand, addGroup, addListCommand, type CommandContext, collect, pair } from "../context.ts";
import type { PageOptions } from "../table.ts";
import type { QuestionOptions } from "./policy.ts";

/** Loaded on demand: the policy compiler would slow down the start of every other command. */
const commands = () => import("./policy.ts");

export function addPolicy(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const policy = addGroup(program, "policy", "check, explain and publish safety policies");
  addCommand(policy, "check", "validate a policy file; requires no control plane")
    .argument("<file>", "policy file")
    .action(async (file: string, options: { json?: boolean }) =>
      exit((await commands()).checkPolicy(io, file, options.json === true)),
    );
  addExplain(policy, context);
  addCommand(policy, "simulate", "evaluate many jobs against a policy")
    .argument("<requests>", "JSON array of jobs, or one JSON object per line; `-` reads stdin")
    .option("--policy <file>", "evaluate this policy file and compare with the policy in force")
    .option("--offline", "evaluate --policy only; requires no control plane")
    .action(async (file: string, options: { json?: boolean; policy?: string; offline?: boolean }) =>
      exit(await (await commands()).simulatePolicy(io, client, file, options)),
    );
  addCommand(policy, "diff", "compare two policies")
    .argument("<file>", "policy file; compared with the policy in force if it is the only one")
    .argument("[other]", "second policy file; requires no control plane")
    .action(async (file: string, other: string | undefined, options: { json?: boolean }) =>
      exit(await (await commands()).diffPolicy(io, client, [file, other], options.json === true)),
    );
  addCommand(policy, "publish", "publish a policy for all tenants and processes")
    .argument("<file>", "policy file")
    .option("--name <name>", "display name (default: the file name)")
    .option("--note <text>", "note for the audit log")
    .action(async (file: string, options: { json?: boolean; name?: string; note?: string }) =>
      exit(await (await commands()).publishPolicyFile(io, client(), file, options)),
    );
  addCommand(policy, "rollback", "put an earlier policy back in force")
    .argument("[to]", "snapshot or release (default: the previous one)")
    .action(async (to: string | undefined, options: { json?: boolean }) =>
      exit(await (await commands()).rollbackPolicyTo(io, client(), to, options.json === true)),
    );
  addListCommand(policy, "list", "list published policies, newest first; `*` marks the one in force").action(
    async (options: PageOptions) => exit(await (await commands()).listPolicies(io, client(), options)),
  );
}

function addExplain(policy: Command, { io, client, exit }: CommandContext): void {
  addCommand(policy, "explain", "show the decision for a job, and why earlier rules did not match")
    .argument("<topic>", "topic of the job")
    .argument("[input]", "input as JSON; `-` reads stdin")
    .option("--policy <file>", "evaluate a policy file; requires no control plane")
    .option("--tenant <tenant>", "tenant of the job")
    .option("--priority <priority>", "priority of the job")
    .option("--label <key=value>", "label; repeatable", pair, {})
    .option("--risk-tag <tag>", "risk tag; repeatable", collect, [])
    .option("--requires <name>", "worker capability that the job requires; repeatable", collect, [])
    .option("--capability <name>", "capability that the job uses")
    .option("--actor <id>", "id of the actor")
    .option("--actor-type <type>", "type of the actor: human or service")
    .option("--pack <id>", "pack id")
    .option("--mcp <part=name>", "server, tool, resource or action of an MCP call; repeatable", pair, {})
    .option("--caller <part=value>", "key, name, role or tenant of the submitter (default: you); repeatable", pair, {})
    .option("--at <time>", "time of the evaluation, such as `2026-03-02T09:30:00Z` (default: now)")
    .action(async (topic: string, input: string | undefined, options: QuestionOptions) =>
      exit(await (await commands()).explainPolicy(io, client, topic, input, options)),
    );
}
