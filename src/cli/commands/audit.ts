import { readFileSync, writeFileSync } from "node:fs";
import type { Command } from "commander";
import { isSignedBy } from "../../adapters/node/audit-signer.ts";
import { type AuditCheckpoint, checkpointText, readCheckpoint } from "../../core/model/audit.ts";
import type { Client, Json } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, plural, showPage } from "../table.ts";

const SYSTEM = ["--system", "use the system chain instead of the tenant chain"] as const;

export function addAudit(program: Command, { io, client, exit }: CommandContext): void {
  const audit = addGroup(program, "audit", "list and verify the tamper-evident audit log");
  addListCommand(audit, "list", "list entries, newest first")
    .option(...SYSTEM)
    .option("--job <id>", "only entries about this job")
    .option("--actor <name>", "only entries of this key (name or id) or worker")
    .option("--action <name>", "only this action (`approved`) or kind (`approval`)")
    .option("--since <time>", "only of the last 15m, 24h or 7d, or since an ISO 8601 time")
    .action(async (options: ListOptions) => exit(await listAudit(io, client(), options)));
  addCommand(audit, "verify", "verify the hash chain of the audit log; exit 1 if it is broken")
    .option(...SYSTEM)
    .option("--head <hash>", "a saved head, which the log must still contain")
    .option("--checkpoint <file>", "a saved checkpoint, which the log must still contain")
    .option("--public-key <file>", "public key that must have signed the checkpoint (PEM)")
    .action(async (options: VerifyOptions) => exit(await verifyAudit(io, client(), options)));
  addCommand(audit, "checkpoint", "sign the length and head of the audit log; keep the output elsewhere")
    .option(...SYSTEM)
    .option("--out <file>", "write the checkpoint to a file")
    .option("--public-key <file>", "write the public key of the signer to a file (PEM)")
    .action(async (options: CheckpointOptions) => exit(await makeCheckpoint(io, client(), options)));
}

interface ChainOptions extends PageOptions {
  /** The chain of entries that concern all tenants. */
  readonly system?: boolean;
}

interface ListOptions extends ChainOptions {
  readonly job?: string;
  readonly actor?: string;
  readonly action?: string;
  readonly since?: string;
}

interface VerifyOptions extends ChainOptions {
  readonly head?: string;
  readonly checkpoint?: string;
  readonly publicKey?: string;
}

interface CheckpointOptions extends ChainOptions {
  readonly out?: string;
  readonly publicKey?: string;
}

async function listAudit(io: Io, client: Client, options: ListOptions): Promise<ExitCode> {
  const { limit, cursor, system, job, actor, action, since } = options;
  const filter = { job, actor, action, since };
  const page = await client.request("GET /audit", { query: { limit, cursor, system, ...filter } });
  const flags = Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [` --${name} ${value}`]));
  return showPage(io, page, options, {
    headers: ["AT", "INDEX", "KIND", "ACTOR", "ACTION", "DETAILS"],
    row: ({ at, index, kind, who, what, facts }) => [at, String(index), kind, who, what, factsOf(facts)],
    command: `audit list${system ? " --system" : ""}${flags.join("")}`,
  });
}

async function verifyAudit(io: Io, client: Client, options: VerifyOptions): Promise<ExitCode> {
  const checkpoint = checkpointOf(options);
  const isSystem = checkpoint === null ? options.system === true : checkpoint.tenant === "*";
  const query = {
    system: isSystem || undefined,
    head: checkpoint?.head ?? options.head,
    entries: checkpoint?.entries,
  };
  const verified: Json = await client.request("GET /audit/verify", { query });
  if (checkpoint !== null) requireTenant(checkpoint, verified.tenant);
  if (options.json) printJson(io, verified);
  const entries = plural(verified.entries, "entry", "entries");
  if (verified.ok) {
    if (!options.json)
      io.out(`audit log intact: ${entries}, head ${verified.head}${containing(checkpoint, options)}\n`);
    if (checkpoint !== null && options.publicKey === undefined) {
      io.err("note: the signer of the checkpoint was not verified; compare it with --public-key FILE\n");
    }
    return EXIT.ok;
  }
  const { index, why } = verified.problem;
  if (!options.json) io.out(`audit log broken at entry ${index}: ${why}; ${entries} before it intact\n`);
  io.err(`next: ${io.command} audit list${isSystem ? " --system" : ""}\n`);
  return EXIT.error;
}

function containing(checkpoint: AuditCheckpoint | null, { head }: VerifyOptions): string {
  if (checkpoint === null) return head === undefined ? "" : "; contains the saved head";
  return `; contains the checkpoint of ${plural(checkpoint.entries, "entry", "entries")} signed at ${checkpoint.at}`;
}

/** Reads the checkpoint and verifies its signature. */
function checkpointOf({ checkpoint: file, head, publicKey }: VerifyOptions): AuditCheckpoint | null {
  if (file === undefined) {
    if (publicKey === undefined) return null;
    throw new CliError(EXIT.usage, "--public-key verifies a --checkpoint", "cordum audit verify --help");
  }
  if (head !== undefined) {
    throw new CliError(EXIT.usage, "--head and --checkpoint exclude each other", "cordum audit verify --help");
  }
  const checkpoint = readCheckpoint(parsed(readText(file)));
  if (checkpoint === null) {
    throw new CliError(EXIT.usage, `\`${file}\` is not an audit checkpoint`, "cordum audit checkpoint --out FILE");
  }
  const key = publicKey === undefined ? checkpoint.public_key : readText(publicKey);
  if (isSignedBy(key, checkpointText(checkpoint), checkpoint.signature)) return checkpoint;
  const message = `checkpoint \`${file}\` is not signed by this key: it was changed, or another control plane signed it`;
  throw new CliError(EXIT.error, message, "cordum audit verify --help");
}

function requireTenant({ tenant }: AuditCheckpoint, verified: string): void {
  if (tenant === verified) return;
  const message = `the checkpoint is of tenant \`${tenant}\`, this key reads the log of tenant \`${verified}\``;
  throw new CliError(EXIT.usage, message, `CORDUM_TENANT=${tenant} cordum audit verify`);
}

async function makeCheckpoint(io: Io, client: Client, options: CheckpointOptions): Promise<ExitCode> {
  const { out, publicKey, system, json } = options;
  const checkpoint = await client.request("GET /audit/checkpoint", { query: { system } });
  if (publicKey !== undefined) writeText(publicKey, checkpoint.public_key);
  if (out !== undefined) writeText(out, `${JSON.stringify(checkpoint, null, 2)}\n`);
  if (out === undefined || json) printJson(io, checkpoint);
  else io.out(`checkpoint of ${plural(checkpoint.entries, "entry", "entries")} written to ${out}\n`);
  io.err(
    `${checkpoint.public_key}keep checkpoint and public key where the store's administrators cannot change them\n`,
  );
  return EXIT.ok;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new CliError(
      EXIT.usage,
      `cannot read \`${file}\`: ${(error as Error).message}`,
      "cordum audit verify --help",
    );
  }
}

function writeText(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    const message = `cannot write \`${file}\`: ${(error as Error).message}`;
    throw new CliError(EXIT.usage, message, "cordum audit checkpoint --help");
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function factsOf(facts: Readonly<Record<string, unknown>>): string {
  return Object.entries(facts ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}
