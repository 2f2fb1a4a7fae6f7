/** `cordum kill …`: the lever that stops the work of a tenant, or of everybody, now. */
import type { Client, Json } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, plural, showPage } from "../table.ts";

export interface EngageOptions {
  readonly json?: boolean;
  readonly reason: string;
  readonly scope?: string;
}

export async function engage(io: Io, client: Client, { scope, reason, json }: EngageOptions): Promise<ExitCode> {
  const kill = await client.post("/kill", { scope, reason });
  if (json) printJson(io, kill);
  else io.out(`${describe(kill)}; ${plural(kill.cancelled, "job")} with workers cancelled\n`);
  io.err(`nothing of it goes out any more\nto release it: ${io.command} kill release --scope '${kill.scope}'\n`);
  return EXIT.ok;
}

export interface ReleaseOptions {
  readonly json?: boolean;
  readonly scope?: string;
}

export async function release(io: Io, client: Client, { scope, json }: ReleaseOptions): Promise<ExitCode> {
  const answer = await client.post("/kill/release", { scope });
  const what = answer.released ? "is released: its work goes on" : "was not engaged";
  if (json) printJson(io, answer);
  else io.out(`the kill switch of ${whose(answer)} ${what}\n`);
  return EXIT.ok;
}

export async function listKills(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.get("/kill"), options, {
    headers: ["SCOPE", "ENGAGED BY", "SINCE", "REASON"],
    row: (kill) => [kill.scope, kill.engaged_by, kill.engaged_at, kill.reason],
    command: "kill status",
  });
}

function describe(kill: Json): string {
  const by = kill.already ? `was engaged by ${kill.engaged_by} at ${kill.engaged_at}` : "is engaged";
  return `the kill switch of ${whose(kill)} ${by}`;
}

const whose = ({ scope }: Json): string => (scope === "*" ? "all tenants" : `tenant ${scope}`);
