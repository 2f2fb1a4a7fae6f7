import type { Command } from "commander";
import type { Client } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, plural, showPage } from "../table.ts";

export function addAudit(program: Command, { io, client, exit }: CommandContext): void {
  const audit = addGroup(program, "audit", "list and verify the tamper-evident audit log");
  addListCommand(audit, "list", "list entries, newest first")
    .option("--system", "use the system chain instead of the tenant chain")
    .action(async (options: ChainOptions) => exit(await listAudit(io, client(), options)));
  addCommand(audit, "verify", "verify the hash chain of the audit log; exit 1 if it is broken")
    .option("--system", "use the system chain instead of the tenant chain")
    .action(async (options: ChainOptions) => exit(await verifyAudit(io, client(), options)));
}

interface ChainOptions extends PageOptions {
  /** The chain of entries that concern all tenants. */
  readonly system?: boolean;
}

async function listAudit(io: Io, client: Client, options: ChainOptions): Promise<ExitCode> {
  const { limit, cursor, system } = options;
  const page = await client.get("/audit", { limit, cursor, system: system ? "true" : undefined });
  return showPage(io, page, options, {
    headers: ["AT", "INDEX", "KIND", "ACTOR", "ACTION", "DETAILS"],
    row: ({ at, index, kind, who, what, facts }) => [at, String(index), kind, who, what, factsOf(facts)],
    command: `audit list${system ? " --system" : ""}`,
  });
}

async function verifyAudit(io: Io, client: Client, options: ChainOptions): Promise<ExitCode> {
  const flag = options.system ? " --system" : "";
  const verified = await client.get("/audit/verify", { system: options.system ? "true" : undefined });
  if (options.json) printJson(io, verified);
  const entries = plural(verified.entries, "entry", "entries");
  if (verified.ok) {
    if (!options.json) io.out(`audit log intact: ${entries}, head ${verified.head}\n`);
    return EXIT.ok;
  }
  const { index, why } = verified.problem;
  if (!options.json) io.out(`audit log broken at entry ${index}: ${why}; ${entries} before it intact\n`);
  io.err(`next: ${io.command} audit list${flag}\n`);
  return EXIT.error;
}

function factsOf(facts: Readonly<Record<string, unknown>>): string {
  return Object.entries(facts ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}
