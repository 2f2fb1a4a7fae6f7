/**
 * `cordum dlq retry --all`: many dead letters, one after the other, no faster than asked.
 *
 * 1. The list is read once, before the first one is tried, and has an end: what fails again is not tried for ever.
 * 2. One that cannot be tried again is told of and passed over. A refusal that is not about the letter (no right, too
 *    fast, nobody there) ends it: the next one would be refused, too.
 * 3. However it ends, what was done is printed.
 */
import { type Client, pathTo } from "../client.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, ProgressLine, printJson } from "../io.ts";
import { plural, printable, textTable } from "../table.ts";

export interface RetryAllOptions {
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

export async function retryAllLetters(io: Io, client: Client, options: RetryAllOptions): Promise<ExitCode> {
  const { ids, more } = await readIds(client, options.max);
  const tally: Tally = { retried: [], refused: [], stopped: null, left: ids.length, more };
  const progress = new ProgressLine(io);
  let dueMs = io.nowMs();
  for (const [at, id] of ids.entries()) {
    if (dueMs > io.nowMs()) await io.sleep(dueMs - io.nowMs());
    // From when it was really sent: what a slow answer cost is not made up for by going faster than asked.
    dueMs = io.nowMs() + 1_000 / options.perSecond;
    tally.stopped = await retryOne(client, id, tally);
    if (tally.stopped !== null) break;
    tally.left -= 1;
    progress.show(`${at + 1} of ${ids.length}`);
  }
  progress.clear();
  return tell(io, tally, options);
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

/** What ends it all, if anything does. */
async function retryOne(client: Client, id: string, tally: Tally): Promise<CliError | null> {
  try {
    tally.retried.push({ id, ...(await client.post(`${pathTo("dlq", id)}/retry`, {})) });
    return null;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    const { code } = error.fields;
    const isAboutIt = (error.exitCode === EXIT.notFound || error.exitCode === EXIT.conflict) && code !== undefined;
    if (!isAboutIt) return error;
    tally.refused.push({ id, code: String(code), error: error.message });
    return null;
  }
}

function tell(io: Io, tally: Tally, { json }: RetryAllOptions): ExitCode {
  const { retried, refused, stopped, left, more } = tally;
  const exitCode = stopped?.exitCode ?? (refused.length > 0 ? EXIT.conflict : EXIT.ok);
  const next = nextAfter(tally);
  if (json) {
    const why = stopped === null ? null : { error: stopped.message, ...stopped.fields };
    printJson(io, { retried, refused, left, more, stopped: why, exit_code: exitCode, next });
  } else {
    const rows = [
      ...retried.map((one) => [one.id, one.state, one.job_id ?? one.message_id ?? ""]),
      ...refused.map((one) => [one.id, "refused", one.error]),
    ];
    if (rows.length > 0) io.out(textTable(["DEAD LETTER", "STATE", "WHAT"], rows));
  }
  if (stopped !== null) io.err(`cordum: stopped: ${printable(stopped.message)}\n`);
  io.err(`${plural(retried.length, "dead letter")} tried again, ${refused.length} refused, ${left} left alone\n`);
  if (more) io.err("there are more than were listed; the same command goes on with them\n");
  if (next !== null) io.err(`next: ${next.replace(/^cordum\b/, io.command)}\n`);
  return exitCode;
}

function nextAfter({ stopped, refused, more }: Tally): string | null {
  if (stopped !== null) return stopped.next ?? "cordum dlq retry --help";
  if (refused.length > 0) return `cordum dlq show ${refused[0]?.id}`;
  return more ? "cordum dlq retry --all" : null;
}
