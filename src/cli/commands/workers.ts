import type { Command } from "commander";
import { formatSpan } from "../../core/jobs/explain.ts";
import type { Client, Json } from "../client.ts";
import { addCommand, addGroup, type CommandContext, whole } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, printable, reasonsText, showPage } from "../table.ts";

export function addWorkers(program: Command, { io, client, exit }: CommandContext): void {
  const worker = addGroup(program, "worker", "inspect workers");
  addCommand(worker, "list", "list workers with a recent heartbeat, and silent ones that hold leases").action(
    async (options: PageOptions) => exit(await listWorkers(io, client(), options)),
  );
  addCommand(worker, "explain", "explain why a worker gets jobs, or why it gets none")
    .argument("<id>", "worker id")
    .action(async (id: string, options: { json?: boolean }) =>
      exit(await explainWorker(io, client(), id, options.json === true)),
    );
  const pool = addGroup(program, "pool", "inspect and drain worker pools");
  addCommand(pool, "list", "list pools and their state").action(async (options: PageOptions) =>
    exit(await listPools(io, client(), options)),
  );
  addCommand(pool, "drain", "stop dispatch to a pool; running jobs finish")
    .argument("<name>", "pool name")
    .action(async (name: string, options: { json?: boolean }) =>
      exit(await changePool(io, client(), name, "drain", options.json === true)),
    );
  addCommand(pool, "resume", "resume dispatch to a pool")
    .argument("<name>", "pool name")
    .action(async (name: string, options: { json?: boolean }) =>
      exit(await changePool(io, client(), name, "resume", options.json === true)),
    );
  const lock = addGroup(program, "lock", "inspect locks");
  addCommand(lock, "list", "list held and contended locks, most contended first")
    .option("--limit <n>", "page size, 1 to 200", whole)
    .action(async (options: PageOptions) => exit(await listLocks(io, client(), options)));
}

async function listWorkers(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.request("GET /workers", {}), options, {
    headers: ["WORKER", "POOL", "TRANSPORT", "JOBS", "LAST SEEN", "STATE", "TOPICS"],
    row: (worker) => [
      worker.worker_id,
      worker.pool,
      worker.transport,
      `${worker.active_jobs} of ${worker.max_parallel_jobs ?? "any"}`,
      worker.last_seen,
      stateOf(worker),
      worker.topics.join(", "),
    ],
    command: "worker list",
  });
}

function stateOf({ silent_ms, leases, is_leaving }: Json): string {
  if ((silent_ms ?? null) === null) return is_leaving ? "leaving" : "working";
  return `silent for ${formatSpan(silent_ms)}, ${leases.length} ${leases.length === 1 ? "lease" : "leases"}`;
}

async function explainWorker(io: Io, client: Client, id: string, json: boolean): Promise<ExitCode> {
  const explained = await client.request("GET /workers/{id}/explain", { path: { id } });
  const { worker, state, reasons } = explained;
  if (json) printJson(io, explained);
  else io.out(`${printable(worker.worker_id)}  ${state}\n${reasonsText(io, reasons)}`);
  return EXIT.ok;
}

async function listPools(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.request("GET /pools", {}), options, {
    headers: ["POOL", "WORKERS", "STATE", "CHANGED BY", "REQUIRES", "TOPICS"],
    row: (pool) => [
      pool.name,
      String(pool.workers),
      pool.draining ? "draining" : "open",
      pool.changed_by_name ?? pool.changed_by,
      pool.requires.join(", ") || "–",
      pool.topics.join(", ") || "–",
    ],
    command: "pool list",
  });
}

async function changePool(
  io: Io,
  client: Client,
  name: string,
  action: "drain" | "resume",
  json: boolean,
): Promise<ExitCode> {
  const pool = await client.request(`POST /pools/{name}/${action}`, { path: { name } });
  if (json) printJson(io, pool);
  else io.out(`pool ${pool.name} ${pool.draining ? "draining; running jobs finish" : "open"}\n`);
  if (action === "drain" && !json) io.err(`to resume: ${io.command} pool resume ${pool.name}\n`);
  return EXIT.ok;
}

async function listLocks(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.request("GET /locks", { query: { limit: options.limit } }), options, {
    headers: ["LOCK", "WAITERS", "BUSY/MIN", "FENCE", "EXPIRES", "HOLDER"],
    row: (lock: Json) => [
      lock.key,
      String(lock.waiters),
      String(lock.busy_last_minute),
      lock.fence === null ? "-" : String(lock.fence),
      lock.expires_at ?? "-",
      lock.holder ?? "free",
    ],
    command: "lock list",
  });
}
