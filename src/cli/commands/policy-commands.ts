import type { Command } from "commander";
import {
  addCommand,
  addGroup,
  addListCommand,
  type CommandContext,
  collect,
  durationUpTo,
  pair,
  whole,
} from "../context.ts";
import { CliError, EXIT } from "../exit.ts";
import type { PageOptions } from "../table.ts";
import type { QuestionOptions } from "./policy.ts";

/** Loaded on demand: the policy compiler would slow down the start of every other command. */
const commands = () => import("./policy.ts");
const recordCommands = () => import("./policy-records.ts");

export function addPolicy(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const policy = addGroup(program, "policy", "check, explain and publish safety policies");
  addCommand(policy, "check", "validate a policy file; requires no control plane")
    .argument("<file>", "policy file")
    .action(async (file: string, options: { json?: boolean }) =>
      exit((await commands()).checkPolicy(io, file, options.json === true)),
    );
  addExplain(policy, context);
  addSimulate(policy, context);
  addCommand(policy, "test", "run test cases: given requests, expected decisions")
    .argument("<file>", "test cases, as YAML")
    .option("--policy <file>", "test a policy file; requires no control plane")
    .action(async (file: string, options: { json?: boolean; policy?: string }) =>
      exit(await (await recordCommands()).testPolicyFile(io, client, file, options)),
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
    .option("--require-tests <file>", "publish only if these test cases pass")
    .action(async (file: string, options: { json?: boolean; name?: string; note?: string; requireTests?: string }) =>
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

function addSimulate(policy: Command, { io, client, exit }: CommandContext): void {
  addCommand(policy, "simulate", "evaluate many jobs, or recorded decisions, against a policy")
    .argument("[requests]", "JSON array of jobs, or one JSON object per line; `-` reads stdin")
    .option("--policy <file>", "evaluate this policy file and compare with the policy in force, or with the record")
    .option("--offline", "evaluate --policy only; requires no control plane")
    .option("--recorded", "list the recorded decisions that the policy would flip")
    .option(
      "--last <duration>",
      "with --recorded: jobs of this time, such as `24h` (default: all that are kept)",
      durationUpTo(LAST_MS_MAX),
    )
    .option("--limit <n>", "with --recorded: jobs to read, newest first (default: 100000)", whole)
    .action(async (file: string | undefined, options: SimulateOptions) => {
      if (options.recorded) return exit(await (await recordCommands()).simulateRecords(io, client(), options));
      if (file === undefined) {
        throw new CliError(EXIT.usage, "give a file with requests, or --recorded", "cordum policy simulate --help");
      }
      return exit(await (await commands()).simulatePolicy(io, client, file, options));
    });
}

const LAST_MS_MAX = 3_650 * 86_400_000;

interface SimulateOptions {
  readonly json?: boolean;
  readonly policy?: string;
  readonly offline?: boolean;
  readonly recorded?: boolean;
  readonly last?: number;
  readonly limit?: number;
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
