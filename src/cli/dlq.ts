import type { Client, Json } from "./client.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { type Io, printJson } from "./io.ts";
import { textTable } from "./table.ts";

export async function listDeadLetters(
  io: Io,
  client: Client,
  options: { readonly json?: boolean; readonly limit?: string; readonly cursor?: string },
): Promise<ExitCode> {
  const page = await client.get("/dlq", { limit: options.limit, cursor: options.cursor });
  if (options.json) {
    printJson(io, page);
    return EXIT.fine;
  }
  const rows = page.items.map((letter: Json) => [
    letter.id,
    letter.reason,
    letter.topic ?? letter.subject,
    letter.created_at,
    letter.error.message,
  ]);
  io.out(textTable(["ID", "REASON", "TOPIC", "CREATED", "ERROR"], rows));
  if (page.next_cursor !== null) io.say(`more: ${io.command} dlq list --cursor ${page.next_cursor}\n`);
  return EXIT.fine;
}

/** Everything that is known of one, for people too: a dead letter is read to find out what happened. */
export async function showDeadLetter(io: Io, client: Client, id: string): Promise<ExitCode> {
  printJson(io, await client.get(`/dlq/${encodeURIComponent(id)}`));
  return EXIT.fine;
}
