/**
 * Bulk operations: pages of a query that the server evaluates, at a limited rate. A repeated page changes nothing twice: after a
 * restart of the gateway the same page is requested again. Results are always printed.
 */
import { type Command, InvalidArgumentError } from "commander";
import { CordumError } from "../../client/client-error.ts";
import { cliErrorFrom, type Json } from "../client.ts";
import { whole } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { plural, printable, textTable } from "../table.ts";

export interface BulkOptions {
  readonly json?: boolean;
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly rate: number;
  readonly max?: number;
  readonly cursor?: string;
}

/** Query parameters by their name in the API. */
export type BulkFilter = Readonly<Record<string, string | boolean | undefined>>;
export type BulkBody = Readonly<Record<string, unknown>>;

export interface BulkOperation {
  readonly action: string;
  /** `dead letter`, singular. */
  readonly noun: string;
  /** `redriven` */
  readonly done: string;
  /** `dlq retry`; the filter as flags gives the same operation again. */
  readonly command: string;
  /** Shows one that was rejected. */
  readonly inspect: string;
  readonly headers: readonly string[];
  readonly rowOf: (record: Json) => readonly string[];
  readonly send: (body: BulkBody) => Promise<Json>;
}

export interface BulkQuery {
  readonly options: BulkOptions;
  readonly filter: BulkFilter;
}

export function addBulkOptions(command: Command, what: string): Command {
  return command
    .option("--dry-run", `count the ${what} that match and show the oldest; change nothing`)
    .option("--rate <n/s>", "of a query: maximum rate, such as 10/s or 30/m", rate, RATE_PER_S)
    .option("--max <n>", `of a query: maximum number of ${what}`, whole)
    .option("--cursor <cursor>", "of a query: continue an operation that was stopped");
}

/** The flags that give the same query again. */
export function flagsOf(filter: BulkFilter): string {
  return Object.entries(filter)
    .map(([name, value]) => {
      if (value === undefined || value === false) return "";
      return ` --${name.replaceAll("_", "-")}${value === true ? "" : ` ${quoted(String(value))}`}`;
    })
    .join("");
}

const quoted = (text: string): string => (/^[\w.:@%+/=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function rate(text: string): number {
  const [, number, unit] = /^(\d{1,5})\/(s|m)$/.exec(text) ?? [];
  if (number === undefined || Number(number) === 0) throw new InvalidArgumentError("must have the form 10/s or 30/m.");
  return unit === "s" ? Number(number) : Number(number) / 60;
}

const RATE_PER_S = 10;

export async function runBulk(io: Io, operation: BulkOperation, query: BulkQuery): Promise<ExitCode> {
  return query.options.dryRun === true ? showMatches(io, operation, query) : changeMany(io, operation, query);
}

async function showMatches(io: Io, operation: BulkOperation, { options, filter }: BulkQuery): Promise<ExitCode> {
  const { headers, rowOf, noun, send } = operation;
  const found: Json = await send({ ...filter, cursor: options.cursor, dry_run: true });
  if (options.json) printJson(io, found);
  else io.out(`${textTable(headers, found.sample.map(rowOf))}${plural(found.matched, noun)} matched\n`);
  if (found.matched > 0) io.err(`next: ${io.command} ${againOf(operation, filter)}\n`);
  return EXIT.ok;
}

function againOf({ command }: BulkOperation, filter: BulkFilter): string {
  const flags = flagsOf(filter);
  return `${command}${flags === "" ? " --all" : flags}`;
}

interface Tally {
  matched: number | null;
  done: number;
  readonly rejected: { readonly id: string; readonly code: string; readonly error: string }[];
  stopped: CliError | null;
  /** Continues the operation; null at its end. */
  cursor: string | null;
}

async function changeMany(io: Io, operation: BulkOperation, query: BulkQuery): Promise<ExitCode> {
  const { options, filter } = query;
  const tally: Tally = { matched: null, done: 0, rejected: [], stopped: null, cursor: options.cursor ?? null };
  const progress = new ProgressLine(io);
  const { rate: perSecond, max = Number.POSITIVE_INFINITY } = options;
  const size = Math.max(1, Math.min(PAGE_MAX, Math.floor(perSecond)));
  for (;;) {
    const fromMs = io.nowMs();
    const limit = Math.min(size, max - tally.done - tally.rejected.length);
    if (limit < 1) break;
    const body = { ...filter, limit, cursor: tally.cursor ?? undefined };
    if (!(await addPage(io, operation, body, tally))) break;
    progress.show(`${tally.done} of ${tally.matched} ${operation.done}, ${tally.rejected.length} rejected`);
    // Counted from the send time: a slow response must not cause a burst.
    const delayMs = fromMs + (limit * 1_000) / perSecond - io.nowMs();
    if (delayMs > 0) await io.sleep(delayMs);
  }
  progress.clear();
  return printTally(io, operation, tally, query);
}

const PAGE_MAX = 100;

/** True if another page follows. */
async function addPage(io: Io, operation: BulkOperation, body: BulkBody, tally: Tally): Promise<boolean> {
  const page = await sendPage(io, operation, body).catch((error: unknown) => {
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

async function sendPage(io: Io, { send }: BulkOperation, body: BulkBody): Promise<Json> {
  const untilMs = io.nowMs() + UNAVAILABLE_MS_MAX;
  for (;;) {
    try {
      return await send(body);
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

function printTally(io: Io, operation: BulkOperation, tally: Tally, { options, filter }: BulkQuery): ExitCode {
  const { matched, done, rejected, stopped, cursor } = tally;
  const { action } = operation;
  const exitCode = stopped?.exitCode ?? (rejected.length > 0 ? EXIT.conflict : EXIT.ok);
  const next =
    cursor !== null
      ? `cordum ${againOf(operation, filter)} --cursor ${cursor}`
      : rejected.length > 0
        ? `cordum ${operation.inspect} ${rejected[0]?.id}`
        : null;
  if (options.json) {
    const why = stopped === null ? null : { error: stopped.message, ...stopped.fields };
    printJson(io, { action, matched, done, rejected, stopped: why, next_cursor: cursor, exit_code: exitCode, next });
  } else if (rejected.length > 0) {
    const rows = rejected.slice(0, REJECTED_SHOWN).map(({ id, error }) => [id, error]);
    io.out(textTable(["REJECTED", "ERROR"], rows));
  }
  if (stopped !== null) io.err(`cordum: stopped: ${printable(stopped.message)}\n`);
  io.err(`${plural(done, operation.noun)} ${operation.done}, ${rejected.length} rejected, ${matched ?? 0} matched\n`);
  if (next !== null) io.err(`next: ${next.replace(/^cordum\b/, io.command)}\n`);
  return exitCode;
}

const REJECTED_SHOWN = 20;
