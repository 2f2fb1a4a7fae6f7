/** `cordum dlq …`: what could not be done: look at it, try it again, give it up. */
import { type Client, type Json, pathTo } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, showPage } from "../table.ts";

export async function listDeadLetters(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
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

/** Everything that is known of one, for people too: a dead letter is read to find out what happened. */
export async function showDeadLetter(io: Io, client: Client, id: string): Promise<ExitCode> {
  printJson(io, await client.get(pathTo("dlq", id)));
  return EXIT.ok;
}

export async function retryDeadLetter(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const retried = await client.post(`${pathTo("dlq", id)}/retry`, {});
  if (json) printJson(io, retried);
  else io.out(`${nameOf(retried)} is ${retried.state}\n`);
  return EXIT.ok;
}

export async function dropDeadLetter(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const dropped = await client.delete(pathTo("dlq", id));
  if (json) printJson(io, dropped);
  else io.out(`dead letter ${dropped.id} is gone for good\n`);
  return EXIT.ok;
}

function nameOf(retried: Json): string {
  return retried.job_id === undefined ? `message ${retried.message_id}` : `job ${retried.job_id}`;
}
