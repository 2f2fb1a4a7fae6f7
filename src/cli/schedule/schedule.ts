import { type Command, InvalidArgumentError } from "commander";
import { CordumError } from "../../client/client-error.ts";
import { type Client, cliErrorFrom, type Json } from "../client.ts";
import { addCommand, addGroup, addListCommand, type CommandContext, durationUpTo } from "../context.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, plural, printable, showPage } from "../table.ts";
import { readText } from "../up/load-policy.ts";
import { readSchedules } from "./read-schedules.ts";
import { explanationText, scheduleText, timingText } from "./schedule-view.ts";

interface JsonOption {
  readonly json?: boolean;
}

export function addSchedule(program: Command, { io, client, exit }: CommandContext): void {
  const schedule = addGroup(program, "schedule", "start workflows by cron expression or interval");
  addCommand(schedule, "apply", "create or change schedules; unchanged ones keep their slots")
    .argument("<file...>", "YAML or JSON files with one schedule or a list; `-` reads stdin")
    .action(async (files: readonly string[], options: JsonOption) => exit(await apply(io, client(), files, options)));
  addListCommand(schedule, "list", "list schedules, newest first").action(async (options: PageOptions) =>
    exit(await list(io, client(), options)),
  );
  addOne(schedule, "get", "show a schedule: next slots, last starts, why the last slot was not started").action(
    async (id: string, options: JsonOption) => exit(await show(io, client(), id, options)),
  );
  addOne(schedule, "explain", "explain what a schedule waits for").action(async (id: string, options: JsonOption) =>
    exit(await explain(io, client(), id, options)),
  );
  addOne(schedule, "pause", "start no slots until it is resumed; open runs continue")
    .option("--reason <text>", "reason for the audit log")
    .action(async (id: string, { reason, ...options }: JsonOption & { readonly reason?: string }) => {
      const paused = await client().request("POST /schedules/{id}/pause", { path: { id }, body: { reason } });
      exit(done(io, paused, options, `schedule ${id} paused`));
    });
  addOne(schedule, "resume", "continue with the next slot; those during the pause are not started")
    .option("--reason <text>", "reason for the audit log")
    .action(async (id: string, { reason, ...options }: JsonOption & { readonly reason?: string }) => {
      const resumed = await client().request("POST /schedules/{id}/resume", { path: { id }, body: { reason } });
      exit(done(io, resumed, options, `schedule ${id} resumed; next slot ${resumed.next_slot?.slot ?? "none"}`));
    });
  addOne(schedule, "trigger", "start a run now, also while the schedule is paused")
    .option("--overlap <policy>", "`allow` starts although a run of the schedule is open", allowOnly)
    .option("--key <key>", "idempotency key: repeating the command returns the same run")
    .action(async (id: string, options: TriggerOptions) => exit(await trigger(io, client(), id, options)));
  addOne(schedule, "backfill", "start the past slots of a range that have no run")
    .option("--from <time>", "first slot, such as 2026-01-01T00:00:00Z", time)
    .option("--until <time>", "last slot (default: now)", time)
    .option("--pace <duration>", "shortest time between two starts (default: 1s)", durationUpTo(86_400_000, 100))
    .option("--cancel", "cancel the backfill; its runs continue")
    .action(async (id: string, options: BackfillOptions) => exit(await backfill(io, client(), id, options)));
  addOne(schedule, "delete", "delete a schedule; its runs continue").action(async (id: string, options: JsonOption) => {
    const deleted = await client().request("DELETE /schedules/{id}", { path: { id } });
    exit(done(io, deleted, options, `schedule ${id} deleted; its runs continue`));
  });
}

const addOne = (parent: Command, name: string, description: string): Command =>
  addCommand(parent, name, description).argument("<id>", "schedule id");

function done(io: Io, answer: Json, { json }: JsonOption, text: string): ExitCode {
  if (json) printJson(io, answer);
  else io.out(`${printable(text)}\n`);
  return EXIT.ok;
}

/** An invalid schedule does not prevent the others from being applied. */
async function apply(io: Io, client: Client, files: readonly string[], { json }: JsonOption): Promise<ExitCode> {
  const applied: Json[] = [];
  const failed: CliError[] = [];
  for (const file of files) {
    const text = file === "-" ? io.readStdin() : readText(file, "the schedule", "cordum schedule apply --help");
    const read = readSchedules(text, file === "-" ? "stdin" : file);
    if (read.kind === "bad") {
      failed.push(new CliError(EXIT.usage, read.problems.join("\n  "), null, { problems: read.problems }));
      continue;
    }
    for (const document of read.documents) {
      try {
        const answer = await client.request("POST /schedules", { body: document as never });
        applied.push(answer);
        const next = answer.next_slot ? `; next slot ${answer.next_slot.slot}` : "";
        if (!json) io.out(`${printable(`schedule ${answer.id} ${answer.result}${next}`)}\n`);
      } catch (thrown) {
        const error = thrown instanceof CordumError ? cliErrorFrom(io, thrown) : thrown;
        if (!(error instanceof CliError)) throw error;
        const { id } = document as { readonly id?: unknown };
        const problems = (error.fields.problems as readonly string[] | undefined) ?? [error.message];
        const named = problems.map((problem) => `${file}: ${id === undefined ? "" : `${String(id)}: `}${problem}`);
        failed.push(new CliError(error.exitCode, named.join("\n  "), error.next, { ...error.fields, problems: named }));
        // Other errors do not depend on the schedule.
        if (error.exitCode !== EXIT.usage) throw failed[0];
      }
    }
  }
  const [first] = failed;
  if (first !== undefined) {
    const lines = failed.map(({ message }) => message);
    const message = [`${plural(failed.length, "schedule")} not applied:`, ...lines].join("\n  ");
    throw new CliError(first.exitCode, message, first.next, { ...first.fields, applied });
  }
  if (json) printJson(io, { items: applied });
  return EXIT.ok;
}

async function list(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  const { limit, cursor } = options;
  return showPage(io, await client.request("GET /schedules", { query: { limit, cursor } }), options, {
    headers: ["SCHEDULE", "WORKFLOW", "STATE", "WHEN", "NEXT SLOT", "LAST RUN"],
    row: (one) => [
      one.id,
      one.workflow_id,
      one.state,
      timingText(one),
      one.next_slot?.slot ?? "–",
      one.last_start?.run_id ?? "–",
    ],
    command: "schedule list",
  });
}

async function show(io: Io, client: Client, id: string, { json }: JsonOption): Promise<ExitCode> {
  const schedule = await client.request("GET /schedules/{id}", { path: { id } });
  if (json) printJson(io, schedule);
  else io.out(scheduleText(schedule));
  return EXIT.ok;
}

async function explain(io: Io, client: Client, id: string, { json }: JsonOption): Promise<ExitCode> {
  const explained = await client.request("GET /schedules/{id}/explain", { path: { id } });
  if (json) printJson(io, explained);
  else io.out(explanationText(io, explained));
  return EXIT.ok;
}

interface TriggerOptions extends JsonOption {
  readonly overlap?: "allow";
  readonly key?: string;
}

async function trigger(io: Io, client: Client, id: string, { json, overlap, key }: TriggerOptions): Promise<ExitCode> {
  const body = { overlap, idempotency_key: key };
  const started = await client.request("POST /schedules/{id}/trigger", { path: { id }, body });
  if (json) printJson(io, started);
  else {
    io.out(`${started.run_id}\n`);
    io.err(`to follow: ${io.command} run watch ${started.run_id}\n`);
  }
  return EXIT.ok;
}

interface BackfillOptions extends JsonOption {
  readonly from?: string;
  readonly until?: string;
  readonly pace?: number;
  readonly cancel?: boolean;
}

async function backfill(
  io: Io,
  client: Client,
  id: string,
  { json, from, until, pace, cancel }: BackfillOptions,
): Promise<ExitCode> {
  if (cancel) {
    const answer = await client.request("DELETE /schedules/{id}/backfill", { path: { id } });
    return done(io, answer, { json: json === true }, `no backfill of schedule ${id} is active; its runs continue`);
  }
  if (from === undefined) {
    throw new CliError(EXIT.usage, "`--from` is missing: name the first slot", "cordum schedule backfill --help");
  }
  const body = { from, until: until ?? new Date().toISOString(), pace_ms: pace };
  const answer = await client.request("POST /schedules/{id}/backfill", { path: { id }, body });
  const slots = answer.backfill?.slots ?? 0;
  if (!json) io.err(`to follow: ${io.command} schedule get ${printable(id)}\n`);
  return done(io, answer, { json: json === true }, `backfill of ${plural(slots, "slot")} started`);
}

function time(text: string): string {
  const ms = Date.parse(text);
  if (Number.isFinite(ms)) return new Date(ms).toISOString();
  throw new InvalidArgumentError("must be a time such as 2026-01-31T00:00:00Z.");
}

function allowOnly(text: string): string {
  if (text === "allow") return text;
  throw new InvalidArgumentError("must be `allow`; without the option the policy of the schedule applies.");
}
