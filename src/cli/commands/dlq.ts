import { type Command, InvalidArgumentError } from "commander";
import { CordumError } from "../../client/client-error.ts";
import type { DeadLetterBulkRequest } from "../../client/schema.ts";
import { type Client, cliErrorFrom, type Json } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, whole } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { type PageOptions, plural, printable, showPage, textTable } from "../table.ts";

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
  addBulk(dlq, context, "retry", "redrive dead letters: reopen their jobs or resend their messages");
  addBulk(dlq, context, "drop", "delete dead letters");
}

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

/** The flags that give the same query again. */
function flagsOf(filters: Filters): string {
  return Object.entries(queryOf(filters))
    .map(([name, value]) => (value === undefined ? "" : ` --${name.replace("_", "-")} ${quoted(value)}`))
    .join("");
}

const quoted = (text: string): string => (/^[\w.:@%+/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

interface BulkOptions extends Filters {
  readonly json?: boolean;
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly rate: number;
  readonly max?: number;
  readonly cursor?: string;
}

type Action = "retry" | "drop";
const DONE = { retry: "redriven", drop: "deleted" } as const;

function addBulk(dlq: Command, { io, client, exit }: CommandContext, action: Action, description: string): void {
  addFilters(
    addCommand(dlq, action, description)
      .argument("[id]", "dead letter id or job id")
      .option("--all", "all dead letters; filters alone select those that match"),
  )
    .option("--dry-run", "count the dead letters that match and show the oldest; change nothing")
    .option("--rate <n/s>", "of a query: maximum rate, such as 10/s or 30/m", rate, RATE_PER_S)
    .option("--max <n>", "of a query: maximum number of dead letters", whole)
    .option("--cursor <cursor>", "of a query: continue an operation that was stopped")
    .action(async (id: string | undefined, options: BulkOptions) => {
      const isQuery = options.all === true || flagsOf(options) !== "";
      if ((id === undefined) !== isQuery) {
        const message =
          id === undefined ? "missing dead letter id, filter or --all" : "an id excludes --all and filters";
        throw new CliError(EXIT.usage, message, "cordum dlq groups");
      }
      if (id !== undefined) exit(await changeOne(io, client(), action, id, options.json === true));
      else if (options.dryRun) exit(await showMatches(io, client(), action, options));
      else exit(await changeMany(io, client(), action, options));
    });
}

function rate(text: string): number {
  const [, number, unit] = /^(\d{1,5})\/(s|m)$/.exec(text) ?? [];
  if (number === undefined || Number(number) === 0) throw new InvalidArgumentError("must have the form 10/s or 30/m.");
  return unit === "s" ? Number(number) : Number(number) / 60;
}

const RATE_PER_S = 10;

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
    command: `dlq list${flagsOf(options)}`,
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

async function showMatches(io: Io, client: Client, action: Action, options: BulkOptions): Promise<ExitCode> {
  const body = { action, ...queryOf(options), cursor: options.cursor, dry_run: true };
  const found: Json = await client.request("POST /dlq/bulk", { body });
  if (options.json) printJson(io, found);
  else io.out(`${textTable(HEADERS, found.sample.map(rowOf))}${plural(found.matched, "dead letter")} matched\n`);
  if (found.matched > 0) io.err(`next: ${io.command} ${againOf(action, options)}\n`);
  return EXIT.ok;
}

function againOf(action: Action, options: BulkOptions): string {
  const flags = flagsOf(options);
  return `dlq ${action}${flags === "" ? " --all" : flags}`;
}

interface Tally {
  matched: number | null;
  done: number;
  readonly rejected: { readonly id: string; readonly code: string; readonly error: string }[];
  stopped: CliError | null;
  /** Continues the operation; null at its end. */
  cursor: string | null;
}

/**
 * Requests pages of the query at a limited rate. The server selects the dead letters, so that a repeated page changes nothing
 * twice: after a restart of the gateway the same page is requested again. Results are always printed.
 */
async function changeMany(io: Io, client: Client, action: Action, options: BulkOptions): Promise<ExitCode> {
  const tally: Tally = { matched: null, done: 0, rejected: [], stopped: null, cursor: options.cursor ?? null };
  const progress = new ProgressLine(io);
  const { rate: perSecond, max = Number.POSITIVE_INFINITY } = options;
  const size = Math.max(1, Math.min(PAGE_MAX, Math.floor(perSecond)));
  for (;;) {
    const fromMs = io.nowMs();
    const limit = Math.min(size, max - tally.done - tally.rejected.length);
    if (limit < 1) break;
    const body = { action, ...queryOf(options), limit, cursor: tally.cursor ?? undefined };
    if (!(await addPage(io, client, body, tally))) break;
    progress.show(`${tally.done} of ${tally.matched} ${DONE[action]}, ${tally.rejected.length} rejected`);
    // Counted from the send time: a slow response must not cause a burst.
    const delayMs = fromMs + (limit * 1_000) / perSecond - io.nowMs();
    if (delayMs > 0) await io.sleep(delayMs);
  }
  progress.clear();
  return printTally(io, action, tally, options);
}

const PAGE_MAX = 100;

/** True if another page follows. */
async function addPage(io: Io, client: Client, body: DeadLetterBulkRequest, tally: Tally): Promise<boolean> {
  const page = await sendPage(io, client, body).catch((error: unknown) => {
    if (!(error instanceof CordumError)) throw error;
    // Nothing has happened yet: report it like that of any other command.
    if (tally.matched === null) throw error;
    tally.stopped = cliErrorFrom(io, error);
  });
  if (page === undefined) return false;
  tally.matched ??= page.matched;
  tally.done += page.done;
  tally.rejected.push(...page.rejected);
  tally.cursor = page.next_cursor;
  if (page.stopped === null) return page.next_cursor !== null;
  const { error, ...fields } = page.stopped;
  tally.stopped = new CliError(EXIT.unavailable, error, null, fields);
  return false;
}

async function sendPage(io: Io, client: Client, body: DeadLetterBulkRequest): Promise<Json> {
  const untilMs = io.nowMs() + UNAVAILABLE_MS_MAX;
  for (;;) {
    try {
      return await client.request("POST /dlq/bulk", { body });
    } catch (error) {
      if (!(error instanceof CordumError) || cliErrorFrom(io, error).exitCode !== EXIT.unavailable) throw error;
      const delayMs = Math.max(UNAVAILABLE_DELAY_MS, error.retryAfterMs ?? 0);
      if (body.cursor === undefined || io.nowMs() + delayMs > untilMs) throw error;
      await io.sleep(delayMs);
    }
  }
}

const UNAVAILABLE_MS_MAX = 60_000;
const UNAVAILABLE_DELAY_MS = 500;

function printTally(io: Io, action: Action, tally: Tally, options: BulkOptions): ExitCode {
  const { matched, done, rejected, stopped, cursor } = tally;
  const exitCode = stopped?.exitCode ?? (rejected.length > 0 ? EXIT.conflict : EXIT.ok);
  const next =
    cursor !== null
      ? `cordum ${againOf(action, options)} --cursor ${cursor}`
      : rejected.length > 0
        ? `cordum dlq show ${rejected[0]?.id}`
        : null;
  if (options.json) {
    const why = stopped === null ? null : { error: stopped.message, ...stopped.fields };
    printJson(io, { action, matched, done, rejected, stopped: why, next_cursor: cursor, exit_code: exitCode, next });
  } else if (rejected.length > 0) {
    const rows = rejected.slice(0, REJECTED_SHOWN).map(({ id, error }) => [id, error]);
    io.out(textTable(["REJECTED", "ERROR"], rows));
  }
  if (stopped !== null) io.err(`cordum: stopped: ${printable(stopped.message)}\n`);
  io.err(`${plural(done, "dead letter")} ${DONE[action]}, ${rejected.length} rejected, ${matched ?? 0} matched\n`);
  if (next !== null) io.err(`next: ${next.replace(/^cordum\b/, io.command)}\n`);
  return exitCode;
}

const REJECTED_SHOWN = 20;
