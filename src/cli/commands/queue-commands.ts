/** How the commands about queues and those who work on them are typed: `dlq`, `worker`, `pool`, `lock`. */
import { type Command, InvalidArgumentError } from "commander";
import { addCommand, addGroup, addListCommand, type CommandContext, whole } from "../context.ts";
import { CliError, EXIT } from "../exit.ts";
import type { PageOptions } from "../table.ts";
import { dropDeadLetter, listDeadLetters, retryDeadLetter, showDeadLetter } from "./dlq.ts";
import { retryAllLetters } from "./dlq-retry.ts";
import { changePool, listLocks, listPools, listWorkers } from "./workers.ts";

interface RetryOptions {
  readonly json?: boolean;
  readonly all?: boolean;
  readonly rate: number;
  readonly max: number;
}

export function addDlq(program: Command, context: CommandContext): void {
  const { io, client, exit } = context;
  const dlq = addGroup(program, "dlq", "dead letters: what could not be done, and why");
  addListCommand(dlq, "list", "list dead letters, newest first").action(async (options: PageOptions) =>
    exit(await listDeadLetters(io, client(), options)),
  );
  addCommand(dlq, "show", "show one dead letter whole")
    .argument("<id>", "its id, or that of its job")
    .action(async (id: string) => exit(await showDeadLetter(io, client(), id)));
  addRetry(dlq, context);
  addCommand(dlq, "drop", "give one up for good")
    .argument("<id>", "its id, or that of its job")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await dropDeadLetter(io, client(), id, options.json === true)),
    );
}

export function addWorkers(program: Command, { io, client, exit }: CommandContext): void {
  const worker = addGroup(program, "worker", "those who do the work");
  addCommand(worker, "list", "list workers that were heard of lately").action(async (options: PageOptions) =>
    exit(await listWorkers(io, client(), options)),
  );
  const pool = addGroup(program, "pool", "pools of workers, and the lever that empties one");
  addCommand(pool, "list", "list pools, and whether they take work").action(async (options: PageOptions) =>
    exit(await listPools(io, client(), options)),
  );
  addCommand(pool, "drain", "a pool gets nothing new; what its workers have, they finish")
    .argument("<name>", "the pool")
    .action(async (name: string, options: { json?: boolean }) =>
      exit(await changePool(io, client(), name, "drain", options.json === true)),
    );
  addCommand(pool, "resume", "a pool takes work again")
    .argument("<name>", "the pool")
    .action(async (name: string, options: { json?: boolean }) =>
      exit(await changePool(io, client(), name, "resume", options.json === true)),
    );
  const lock = addGroup(program, "lock", "locks: who holds them, who waits");
  addCommand(lock, "list", "list locks that are held or waited for, the hottest first")
    .option("--limit <n>", "how many, 1 to 200")
    .action(async (options: PageOptions) => exit(await listLocks(io, client(), options)));
}

function addRetry(dlq: Command, { io, client, exit }: CommandContext): void {
  addCommand(dlq, "retry", "try again: the same job lives on, or the message is sent again")
    .argument("[id]", "its id, or that of its job")
    .option("--all", "all that there are, one after the other")
    .option("--rate <n/s>", "with --all: no more than so many a second", rate, RATE_PER_S)
    .option("--max <n>", "with --all: no more than so many", whole, RETRIED_MAX)
    .action(async (id: string | undefined, options: RetryOptions) => {
      const { all = false, json = false } = options;
      if ((id === undefined) === !all) {
        const message = id === undefined ? "say which dead letter, or --all" : "give an id or --all, not both";
        throw new CliError(EXIT.usage, message, "cordum dlq list");
      }
      if (id !== undefined) exit(await retryDeadLetter(io, client(), id, json));
      else exit(await retryAllLetters(io, client(), { json, perSecond: options.rate, max: options.max }));
    });
}

function rate(text: string): number {
  const [, number, unit] = /^(\d{1,5})\/(s|m)$/.exec(text) ?? [];
  if (number === undefined || Number(number) === 0) throw new InvalidArgumentError("write it as 10/s or 30/m.");
  return unit === "s" ? Number(number) : Number(number) / 60;
}

const RATE_PER_S = 10;
const RETRIED_MAX = 1_000;
