/** `cordum key …`: API keys. The text of a key is printed once, alone on stdout, and nowhere else. */
import { type Client, pathTo } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, showPage } from "../table.ts";

export interface CreateKeyOptions {
  readonly json?: boolean;
  readonly role: string;
  readonly tenant?: string;
  readonly name?: string;
  readonly expiresIn?: number;
}

export async function createKey(io: Io, client: Client, options: CreateKeyOptions): Promise<ExitCode> {
  const { tenant, role, name, expiresIn } = options;
  const made = await client.post("/keys", { tenant, role, name, expires_in_ms: expiresIn });
  if (options.json) printJson(io, made);
  else io.out(`${made.key}\n`);
  const until = made.expires_at === null ? "until it is revoked" : `until ${made.expires_at}`;
  io.err(`key ${made.id}: role ${made.role}, tenant ${made.tenant}, ${until}; it is not shown again\n`);
  io.err("next: export CORDUM_API_KEY=KEY\n");
  return EXIT.ok;
}

export async function listKeys(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.get("/keys", { limit, cursor }), options, {
    headers: ["KEY", "TENANT", "ROLE", "STATE", "CREATED", "BY", "EXPIRES", "NAME"],
    row: (key) => [
      key.id,
      key.tenant,
      key.role,
      key.state,
      key.created_at,
      key.created_by,
      key.expires_at ?? "never",
      key.name,
    ],
    command: "key list",
  });
}

export async function revokeKey(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const key = await client.delete(pathTo("keys", id));
  if (json) printJson(io, key);
  else io.out(`key ${key.id} is revoked; requests with it are refused within a second\n`);
  return EXIT.ok;
}
