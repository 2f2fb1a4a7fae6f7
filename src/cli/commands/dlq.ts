import { type Command, InvalidArgumentError } from "commander";
import { type Client, type Json, pathTo } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, whole } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { type PageOptions, plural, printable, showPage, textTable } from "../table.ts";

export function addDlq(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const dlq = addGroup(program, "dlq", "inspect, retry and drop dead letters");
  addListCommand(dlq, "list", "list dead letters, newest first").action(async (options: PageOptions) =>
    exit(await listDeadLetters(io, client(), options)),
  );
  addCommand(dlq, "show", "show one dead letter with its payload")
    .argument("<id>", "dead letter id or job id")
    .action(async (id: string) => exit(await showDeadLetter(io, client(), id)));
  addRetry(dlq, context);
  addCommand(dlq, "drop", "delete a dead letter")
    .argument("<id>", "dead letter id or job id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await dropDeadLetter(io, client(), id, options.json === true)),
    );
}

interface RetryOptions {
  readonly json?: boolean;
  readonly all?: boolean;
  readonly rate: number;
  readonly max: number;
}

function addRetry(dlq: Command, { io, client, exit }: CommandContext): void {
  addCommand(dlq, "retry", "redrive a dead letter: reopen its job or resend its message")
    .argument("[id]", "dead letter id or job id")
    .option("--all", "redrive all dead letters, one at a time")
    .option("--rate <n/s>", "with --all: maximum rate, such as 10/s or 30/m", rate, RATE_PER_S)
    .option("--max <n>", "with --all: maximum number of dead letters", whole, RETRIED_MAX)
    .action(async (id: string | undefined, options: RetryOptions) => {
      const { all = false, json = false } = options;
      if ((id === undefined) === !all) {
        const message = id === undefined ? "missing dead letter id or --all" : "an id and --all are mutually exclusive";
        throw new CliError(EXIT.usage, message, "cordum dlq list");
      }
      if (id !== undefined) exit(await retryDeadLetter(io, client(), id, json));
      else exit(await retryAllDeadLetters(io, client(), { json, perSecond: options.rate, max: options.max }));
    });
}

function rate(text: string): number {
  const [, number, unit] = /^(\d{1,5})\/(s|m)$/.exec(text) ?? [];
  if (number === undefined || Number(number) === 0) throw new InvalidArgumentError("must have the form 10/s or 30/m.");
  return unit === "s" ? Number(number) : Number(number) / 60;
}

const RATE_PER_S = 10;
const RETRIED_MAX = 1_000;

async function listDeadLetters(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.get("/dlq", { limit, cursor }), options, {
    headers: ["ID", "REASON", "TOPIC", "CREATED", "ERROR"],
    row: (deadLetter) => [
      deadLetter.id,
      deadLetter.reason,
      deadLetter.topic ?? deadLetter.subject,
      deadLetter.created_at,
      deadLetter.error?.message,
    ],
    command: "dlq list",
  });
}

async function showDeadLetter(io: Io, client: Client, id: string): Promise<ExitCode> {
  printJson(io, await client.get(pathTo("dlq", id)));
  return EXIT.ok;
}

async function retryDeadLetter(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const retried = await client.post(`${pathTo("dlq", id)}/retry`, {});
  if (json) printJson(io, retried);
  else io.out(`${nameOf(retried)} redriven, state ${retried.state}\n`);
  return EXIT.ok;
}

async function dropDeadLetter(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const dropped = await client.delete(pathTo("dlq", id));
  if (json) printJson(io, dropped);
  else io.out(`dead letter ${dropped.id} deleted\n`);
  return EXIT.ok;
}

function nameOf(retried: Json): string {
  return retried.job_id === undefined ? `message ${retried.message_id}` : `job ${retried.job_id}`;
}

interface RetryAllOptions {
  readonly json?: boolean;
  readonly perSecond: number;
  readonly max: number;
}

interface Tally {
  readonly retried: { readonly id: string; readonly job_id?: string; readonly message_id?: string; state: string }[];
  readonly refused: { readonly id: string; readonly code: string; readonly error: string }[];
  stopped: CliError | null;
  left: number;
  more: boolean;
}

/**
 * Redrives dead letters one at a time at a limited rate. The list is read once, so that dead letters that fail again are
 * not redriven in a loop. An error about one dead letter skips it; any other error stops the loop. Results are always
 * printed.
 */
async function retryAllDeadLetters(io: Io, client: Client, options: RetryAllOptions): Promise<ExitCode> {
  const { ids, more } = await readIds(client, options.max);
  const tally: Tally = { retried: [], refused: [], stopped: null, left: ids.length, more };
  const progress = new ProgressLine(io);
  let dueMs = io.nowMs();
  for (const [at, id] of ids.entries()) {
    if (dueMs > io.nowMs()) await io.sleep(dueMs - io.nowMs());
    // Counted from the send time: a slow response must not cause a burst.
    dueMs = io.nowMs() + 1_000 / options.perSecond;
    tally.stopped = await retryOne(client, id, tally);
    if (tally.stopped !== null) break;
    tally.left -= 1;
    progress.show(`${at + 1} of ${ids.length}`);
  }
  progress.clear();
  return printTally(io, tally, options);
}

const PAGE_MAX = 200;

async function readIds(client: Client, max: number): Promise<{ ids: readonly string[]; more: boolean }> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const limit = String(Math.min(PAGE_MAX, max - ids.length));
    const page = await client.get("/dlq", { limit, cursor: cursor ?? undefined });
    for (const { id } of page.items) ids.push(id);
    cursor = page.next_cursor;
  } while (cursor !== null && ids.length < max);
  return { ids, more: cursor !== null };
}

/** Returns the error that stops the loop, if any. */
async function retryOne(client: Client, id: string, tally: Tally): Promise<CliError | null> {
  try {
    tally.retried.push({ id, ...(await client.post(`${pathTo("dlq", id)}/retry`, {})) });
    return null;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    const { code } = error.fields;
    const isLetterError = (error.exitCode === EXIT.notFound || error.exitCode === EXIT.conflict) && code !== undefined;
    if (!isLetterError) return error;
    tally.refused.push({ id, code: String(code), error: error.message });
    return null;
  }
}

function printTally(io: Io, tally: Tally, { json }: RetryAllOptions): ExitCode {
  const { retried, refused, stopped, left, more } = tally;
  const exitCode = stopped?.exitCode ?? (refused.length > 0 ? EXIT.conflict : EXIT.ok);
  const next = nextAfter(tally);
  if (json) {
    const why = stopped === null ? null : { error: stopped.message, ...stopped.fields };
    printJson(io, { retried, refused, left, more, stopped: why, exit_code: exitCode, next });
  } else {
    const rows = [
      ...retried.map((one) => [one.id, one.state, one.job_id ?? one.message_id ?? ""]),
      ...refused.map((one) => [one.id, "rejected", one.error]),
    ];
    if (rows.length > 0) io.out(textTable(["DEAD LETTER", "STATE", "DETAIL"], rows));
  }
  if (stopped !== null) io.err(`cordum: stopped: ${printable(stopped.message)}\n`);
  io.err(`${plural(retried.length, "dead letter")} redriven, ${refused.length} rejected, ${left} skipped\n`);
  if (more) io.err("more dead letters remain; run the command again\n");
  if (next !== null) io.err(`next: ${next.replace(/^cordum\b/, io.command)}\n`);
  return exitCode;
}

function nextAfter({ stopped, refused, more }: Tally): string | null {
  if (stopped !== null) return stopped.next ?? "cordum dlq retry --help";
  if (refused.length > 0) return `cordum dlq show ${refused[0]?.id}`;
  return more ? "cordum dlq retry --all" : null;
}
