/** How the `policy` commands are typed. */
import type { Command } from "commander";
import { addCommand, addGroup, addListCommand, type CommandContext, collect, pair } from "../context.ts";
import type { PageOptions } from "../table.ts";
import type { QuestionOptions } from "./policy.ts";

/** Loaded only when one of them is called: what reads policies would slow every other command down. */
const commands = () => import("./policy.ts");

export function addPolicy(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const policy = addGroup(program, "policy", "the safety policy: check, explain, publish");
  addCommand(policy, "check", "read a policy file and say everything that is wrong with it; needs no control plane")
    .argument("<file>", "the policy")
    .action(async (file: string, options: { json?: boolean }) =>
      exit((await commands()).checkPolicy(io, file, options.json === true)),
    );
  addExplain(policy, context);
  addCommand(policy, "simulate", "what would be decided about many jobs, and by which rules")
    .argument("<requests>", "a file with a JSON list of jobs, or one JSON object a line; `-` reads stdin")
    .option("--policy <file>", "by this policy, beside the one in force")
    .option("--offline", "by the policy of --policy alone; needs no control plane")
    .action(async (file: string, options: { json?: boolean; policy?: string; offline?: boolean }) =>
      exit(await (await commands()).simulatePolicy(io, client, file, options)),
    );
  addCommand(policy, "diff", "what is different between two policies")
    .argument("<file>", "a policy; alone, the policy in force is compared with it")
    .argument("[other]", "another one; then no control plane is needed")
    .action(async (file: string, other: string | undefined, options: { json?: boolean }) =>
      exit(await (await commands()).diffPolicy(io, client, [file, other], options.json === true)),
    );
  addCommand(policy, "publish", "put a policy in force, for all tenants and processes")
    .argument("<file>", "the policy")
    .option("--name <name>", "what to call it (default: the file)")
    .option("--note <text>", "why, for those who come after")
    .action(async (file: string, options: { json?: boolean; name?: string; note?: string }) =>
      exit(await (await commands()).publishPolicyFile(io, client(), file, options)),
    );
  addCommand(policy, "rollback", "put an earlier policy in force again")
    .argument("[to]", "its snapshot or release; the one before when not given")
    .action(async (to: string | undefined, options: { json?: boolean }) =>
      exit(await (await commands()).rollbackPolicyTo(io, client(), to, options.json === true)),
    );
  addListCommand(policy, "list", "what was published, newest first; `*` is in force").action(
    async (options: PageOptions) => exit(await (await commands()).listPolicies(io, client(), options)),
  );
}

function addExplain(policy: Command, { io, client, exit }: CommandContext): void {
  addCommand(policy, "explain", "what would be decided about a job, and why no earlier rule did")
    .argument("<topic>", "its topic")
    .argument("[input]", "its input as JSON; `-` reads it from stdin")
    .option("--policy <file>", "by the policy in a file; needs no control plane")
    .option("--tenant <tenant>", "its tenant")
    .option("--priority <priority>", "how urgent it is")
    .option("--label <key=value>", "a label; may be repeated", pair, {})
    .option("--risk-tag <tag>", "a risk tag; may be repeated", collect, [])
    .option("--requires <name>", "what it requires; may be repeated", collect, [])
    .option("--capability <name>", "what it needs to be able to do")
    .option("--actor <id>", "on whose behalf")
    .option("--actor-type <type>", "human or service")
    .option("--pack <id>", "the pack it belongs to")
    .option("--mcp <part=name>", "server, tool, resource or action of an MCP call; may be repeated", pair, {})
    .action(async (topic: string, input: string | undefined, options: QuestionOptions) =>
      exit(await (await commands()).explainPolicy(io, client, topic, input, options)),
    );
}
