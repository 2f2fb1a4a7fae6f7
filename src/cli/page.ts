/** Lists, as every `list` command shows them. */
import type { Json } from "./client.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { type Io, printJson } from "./io.ts";
import { textTable } from "./table.ts";

export interface PageOptions {
  readonly json?: boolean;
  readonly limit?: string;
  readonly cursor?: string;
}

export interface Listed {
  readonly headers: readonly string[];
  row(item: Json): readonly string[];
  /** What was typed, without `cordum` and without the cursor: with one it shows the next page. */
  readonly command: string;
}

export function showPage(io: Io, page: Json, options: PageOptions, { headers, row, command: again }: Listed): ExitCode {
  if (options.json) {
    printJson(io, page);
    return EXIT.ok;
  }
  io.out(textTable(headers, page.items.map(row)));
  if (page.items.length === 0) io.err("there are none\n");
  const limit = options.limit === undefined ? "" : ` --limit ${options.limit}`;
  if (page.next_cursor !== null) io.err(`more: ${io.command} ${again}${limit} --cursor ${page.next_cursor}\n`);
  return EXIT.ok;
}
