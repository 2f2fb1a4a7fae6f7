import type { Command } from "commander";
import type { Client, Json } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, printable, showPage, textTable } from "../table.ts";
import { addBulkOptions, type BulkBody, type BulkOptions, flagsOf, runBulk } from "./bulk.ts";

export function addDlq(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const dlq = addGroup(program, "dlq", "inspect, retry and drop dead letters");
  addCommand(dlq, "groups", "group dead letters by topic, reason and error, with the fix of each group").action(
    async (options: { json?: boolean }) => exit(await listGroups(io, client(), options.json === true)),
  );
  addFilters(addListCommand(dlq, "list", "list dead letters, newest first")).action(async (options: ListOptions) =>
    exit(await listDeadLetters(io, client(), options)),
  );
  addCommand(dlq, "show", "show one dead letter with its payload")
    .argument("<id>", "dead letter id or job id")
    .action(async (id: string) => exit(await showDeadLetter(io, client(), id)));
  for (const action of ["retry", "drop"] as const) {
    const operation = {
      ...{ action, noun: "dead letter", headers: HEADERS, rowOf, done: DONE[action] },
      command: `dlq ${action}`,
      inspect: "dlq show",
      send: (body: BulkBody) => client().request("POST /dlq/bulk", { body: { ...body, action } }),
    };
    const changes = addCommand(dlq, action, DESCRIPTIONS[action]).argument("[id]", "dead letter id or job id");
    addFilters(changes.option("--all", "all dead letters; filters alone select those that match"));
    addBulkOptions(changes, "dead letters").action(async (id: string | undefined, options: Options) => {
      const query = { options, filter: queryOf(options) };
      const isQuery = options.all === true || flagsOf(query.filter) !== "";
      if ((id === undefined) !== isQuery) {
        const message =
          id === undefined ? "missing dead letter id, filter or --all" : "an id excludes --all and filters";
        throw new CliError(EXIT.usage, message, "cordum dlq groups");
      }
      if (id === undefined) exit(await runBulk(io, operation, query));
      else exit(await changeOne(io, client(), action, id, options.json === true));
    });
  }
}

interface Options extends BulkOptions, Filters {}

type Action = "retry" | "drop";
const DONE = { retry: "redriven", drop: "deleted" } as const;
const DESCRIPTIONS = {
  retry: "redrive dead letters: reopen their jobs or resend their messages",
  drop: "delete dead letters",
} as const;

/** The server answers each of them from an index. */
function addFilters(command: Command): Command {
  return command
    .option("--topic <topic>", "only of this topic, or subject of messages")
    .option("--reason <reason>", "only with this reason: permanent, undecodable, budget or timeout")
    .option("--error <name>", "only with this error name, such as TypeError")
    .option("--fingerprint <fingerprint>", "only of this group; excludes --topic, --reason and --error")
    .option("--older-than <duration>", "only older ones, such as 24h")
    .option("--newer-than <duration>", "only younger ones, such as 15m");
}

interface Filters {
  readonly topic?: string;
  readonly reason?: string;
  readonly error?: string;
  readonly fingerprint?: string;
  readonly olderThan?: string;
  readonly newerThan?: string;
}

interface ListOptions extends PageOptions, Filters {}

function queryOf(filters: Filters): Record<string, string | undefined> {
  const { topic, reason, error, fingerprint, olderThan, newerThan } = filters;
  return { topic, reason, error, fingerprint, older_than: olderThan, newer_than: newerThan };
}

async function listGroups(io: Io, client: Client, json: boolean): Promise<ExitCode> {
  const { items, more } = await client.request("GET /dlq/groups", {});
  if (json) {
    printJson(io, { items, more });
    return EXIT.ok;
  }
  const rows = items.map((group: Json) => [
    String(group.count),
    group.fingerprint,
    group.reason,
    group.topic,
    group.last_seen,
    `${group.error}: ${group.pattern}`,
  ]);
  io.out(textTable(["COUNT", "FINGERPRINT", "REASON", "TOPIC", "LAST SEEN", "ERROR"], rows));
  for (const { fingerprint, fix } of items.slice(0, FIXES_SHOWN)) {
    io.out(`\n${fingerprint}: ${printable(fix.what)}\n  ${fix.command.replace(/^cordum\b/, io.command)}\n`);
  }
  if (items.length === 0) io.err("no items found\n");
  if (more) io.err("more groups exist; only the largest are shown\n");
  return EXIT.ok;
}

const FIXES_SHOWN = 10;

const HEADERS = ["ID", "REASON", "TOPIC", "CREATED", "ERROR"];

function rowOf(deadLetter: Json): readonly string[] {
  const { id, reason, topic, subject, created_at, error } = deadLetter;
  return [id, reason, topic ?? subject, created_at, error?.message];
}

async function listDeadLetters(io: Io, client: Client, options: ListOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.request("GET /dlq", { query: { ...queryOf(options), limit, cursor } }), options, {
    headers: HEADERS,
    row: rowOf,
    command: `dlq list${flagsOf(queryOf(options))}`,
  });
}

async function showDeadLetter(io: Io, client: Client, id: string): Promise<ExitCode> {
  printJson(io, await client.deadLetters.get(id));
  return EXIT.ok;
}

async function changeOne(io: Io, client: Client, action: Action, id: string, json: boolean): Promise<ExitCode> {
  const changed: Json = await client.deadLetters[action](id);
  if (json) printJson(io, changed);
  else if (action === "retry") io.out(`${nameOf(changed)} redriven, state ${changed.state}\n`);
  else io.out(`dead letter ${changed.id} deleted\n`);
  return EXIT.ok;
}

function nameOf(retried: Json): string {
  return retried.job_id === undefined ? `message ${retried.message_id}` : `job ${retried.job_id}`;
}
