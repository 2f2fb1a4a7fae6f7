/** `cordum audit …`: who did what, and whether the log is still what was written. */
import type { Client } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, plural, showPage } from "../table.ts";

export interface ChainOptions extends PageOptions {
  /** The chain of what concerns all tenants. */
  readonly system?: boolean;
}

export async function listAudit(io: Io, client: Client, options: ChainOptions): Promise<ExitCode> {
  const { limit, cursor, system } = options;
  const page = await client.get("/audit", { limit, cursor, system: system ? "true" : undefined });
  return showPage(io, page, options, {
    headers: ["AT", "ENTRY", "KIND", "WHO", "WHAT", "FACTS"],
    row: ({ at, index, kind, who, what, facts }) => [at, String(index), kind, who, what, factsOf(facts)],
    command: `audit list${system ? " --system" : ""}`,
  });
}

export async function verifyAudit(io: Io, client: Client, options: ChainOptions): Promise<ExitCode> {
  const flag = options.system ? " --system" : "";
  const verified = await client.get("/audit/verify", { system: options.system ? "true" : undefined });
  if (options.json) printJson(io, verified);
  const entries = plural(verified.entries, "entry", "entries");
  if (verified.ok) {
    if (!options.json) io.out(`${entries}, all as they were written; head ${verified.head}\n`);
    return EXIT.ok;
  }
  const { index, why } = verified.problem;
  if (!options.json) io.out(`broken at entry ${index}: ${why}; ${entries} before it are as they were written\n`);
  io.err(`next: ${io.command} audit list${flag}\n`);
  return EXIT.error;
}

function factsOf(facts: Readonly<Record<string, unknown>>): string {
  return Object.entries(facts ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}
