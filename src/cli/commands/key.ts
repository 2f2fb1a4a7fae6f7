import { type Command, Option } from "commander";
import type { CreateKeyRequest } from "../../client/schema.ts";
import { ROLES } from "../../core/model/api-key.ts";
import type { Client } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, durationUpTo } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, printable, reasonsText, showPage, textFields } from "../table.ts";

export function addKey(program: Command, { io, client, exit }: CommandContext): void {
  const key = addGroup(program, "key", "manage API keys");
  addCommand(key, "create", "create an API key and print it once")
    .addOption(new Option("--role <role>", "role of the key").choices(ROLES).makeOptionMandatory())
    .option("--tenant <tenant>", "tenant of the key, or '*' for all tenants (default: your tenant)")
    .option("--name <name>", "display name")
    .option("--person <name>", "owner of the key; a person cannot approve jobs submitted with any key of theirs")
    .option("--actor-id <id>", "actor of all submissions with the key; others are refused")
    .addOption(new Option("--actor-type <type>", "actor type of all submissions with the key").choices(ACTOR_TYPES))
    .option(
      "--expires-in <duration>",
      "lifetime of the key, such as 720h (default: unlimited)",
      durationUpTo(YEARS_MS, 1_000),
    )
    .action(async (options: CreateKeyOptions) => exit(await createKey(io, client(), options)));
  addListCommand(key, "list", "list API keys, newest first, without their secrets").action(
    async (options: PageOptions) => exit(await listKeys(io, client(), options)),
  );
  addCommand(key, "explain", "explain what a key may do, until when, who created it and when it was last used")
    .argument("<id>", "key id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await explainKey(io, client(), id, options.json === true)),
    );
  addCommand(key, "revoke", "revoke an API key")
    .argument("<id>", "key id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await revokeKey(io, client(), id, options.json === true)),
    );
}

interface CreateKeyOptions {
  readonly json?: boolean;
  readonly role: CreateKeyRequest["role"];
  readonly tenant?: string;
  readonly name?: string;
  readonly person?: string;
  readonly actorId?: string;
  readonly actorType?: CreateKeyRequest["actor_type"];
  readonly expiresIn?: number;
}

async function createKey(io: Io, client: Client, options: CreateKeyOptions): Promise<ExitCode> {
  const { tenant, role, name, person, actorId, actorType, expiresIn } = options;
  const owner = { person, actor_id: actorId, actor_type: actorType };
  const made = await client.request("POST /keys", { body: { tenant, role, name, ...owner, expires_in_ms: expiresIn } });
  if (options.json) printJson(io, made);
  else io.out(`${made.key}\n`);
  const until = made.expires_at === null ? "does not expire" : `expires ${made.expires_at}`;
  io.err(`key ${made.id}: role ${made.role}, tenant ${made.tenant}, ${until}; the key is not shown again\n`);
  io.err("next: export CORDUM_API_KEY=KEY\n");
  return EXIT.ok;
}

async function listKeys(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.request("GET /keys", { query: { limit, cursor } }), options, {
    headers: ["KEY", "TENANT", "ROLE", "STATE", "CREATED", "BY", "LAST USED", "EXPIRES", "PERSON", "ACTOR", "NAME"],
    row: (key) => [
      key.id,
      key.tenant,
      key.role,
      key.state,
      key.created_at,
      key.created_by_name ?? key.created_by,
      key.last_used_at ?? "–",
      key.expires_at ?? "never",
      key.person,
      key.actor_id ?? key.actor_type,
      key.name,
    ],
    command: "key list",
  });
}

async function explainKey(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const explained = await client.request("GET /keys/{id}/explain", { path: { id } });
  if (json) {
    printJson(io, explained);
    return EXIT.ok;
  }
  const { key, permissions, reasons } = explained;
  io.out(`${printable(key.name === null ? key.id : `${key.id} (${key.name})`)}  ${key.state}\n`);
  io.out(
    textFields([
      ["role", key.role],
      ["tenant", key.tenant],
      ["may", permissions.join(", ") || "nothing"],
      ["created", `${key.created_at} by ${key.created_by_name ?? key.created_by}`],
      ["last used", key.last_used_at ?? "no recorded use"],
      ["expires", key.expires_at ?? "never"],
    ]),
  );
  io.out(reasonsText(io, reasons));
  return EXIT.ok;
}

async function revokeKey(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const key = await client.request("DELETE /keys/{id}", { path: { id } });
  if (json) printJson(io, key);
  else io.out(`key ${key.id} revoked; requests with it are rejected within 1 s\n`);
  return EXIT.ok;
}

const ACTOR_TYPES = ["human", "service"];
const YEARS_MS = 10 * 365 * 86_400_000;
