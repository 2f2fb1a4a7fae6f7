import type { Command } from "commander";
import type { Client, Json } from "../client.ts";
import { addCommand, addGroup, type CommandContext } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, plural, showPage } from "../table.ts";

export function addKill(program: Command, { io, client, exit }: CommandContext): void {
  const kill = addGroup(program, "kill", "stop the dispatch of one tenant or of all tenants");
  addCommand(kill, "engage", "stop dispatch and cancel running jobs; audited")
    .requiredOption("--reason <text>", "reason for the audit log")
    .option("--scope <tenant>", "tenant, or '*' for all tenants (default: your tenant)")
    .action(async (options: EngageOptions) => exit(await engage(io, client(), options)));
  addCommand(kill, "release", "resume dispatch")
    .option("--scope <tenant>", "tenant, or '*' for all tenants (default: your tenant)")
    .action(async (options: ReleaseOptions) => exit(await release(io, client(), options)));
  addCommand(kill, "status", "list engaged kill switches").action(async (options: PageOptions) =>
    exit(await listKills(io, client(), options)),
  );
}

interface EngageOptions {
  readonly json?: boolean;
  readonly reason: string;
  readonly scope?: string;
}

async function engage(io: Io, client: Client, { scope, reason, json }: EngageOptions): Promise<ExitCode> {
  const kill = await client.request("POST /kill", { body: { scope, reason } });
  if (json) printJson(io, kill);
  else io.out(`${describe(kill)}; ${plural(kill.cancelled, "running job")} cancelled\n`);
  io.err(`dispatch is stopped\nto release: ${io.command} kill release --scope '${kill.scope}'\n`);
  return EXIT.ok;
}

interface ReleaseOptions {
  readonly json?: boolean;
  readonly scope?: string;
}

async function release(io: Io, client: Client, { scope, json }: ReleaseOptions): Promise<ExitCode> {
  const answer = await client.request("POST /kill/release", { body: { scope } });
  const what = answer.released ? "released; dispatch resumes" : "was not engaged";
  if (json) printJson(io, answer);
  else io.out(`kill switch of ${scopeOf(answer)} ${what}\n`);
  return EXIT.ok;
}

async function listKills(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.request("GET /kill", {}), options, {
    headers: ["SCOPE", "ENGAGED BY", "SINCE", "REASON"],
    row: (kill) => [kill.scope, kill.engaged_by_name ?? kill.engaged_by, kill.engaged_at, kill.reason],
    command: "kill status",
  });
}

function describe(kill: Json): string {
  const by = kill.already
    ? `was already engaged by ${kill.engaged_by_name ?? kill.engaged_by} at ${kill.engaged_at}`
    : "engaged";
  return `kill switch of ${scopeOf(kill)} ${by}`;
}

const scopeOf = ({ scope }: Json): string => (scope === "*" ? "all tenants" : `tenant ${scope}`);
