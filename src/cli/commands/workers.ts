/** `cordum worker …`, `cordum pool …`, `cordum lock …`: who works, and who holds what. */
import { type Client, type Json, pathTo } from "../client.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { type PageOptions, showPage } from "../table.ts";

export async function listWorkers(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.get("/workers"), options, {
    headers: ["WORKER", "POOL", "TRANSPORT", "JOBS", "LAST SEEN", "STATE", "TOPICS"],
    row: (worker) => [
      worker.worker_id,
      worker.pool,
      worker.transport,
      `${worker.active_jobs} of ${worker.max_parallel_jobs ?? "any"}`,
      worker.last_seen,
      worker.is_leaving ? "leaving" : "working",
      worker.topics.join(", "),
    ],
    command: "worker list",
  });
}

export async function listPools(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.get("/pools"), options, {
    headers: ["POOL", "WORKERS", "STATE", "CHANGED BY", "REQUIRES", "TOPICS"],
    row: (pool) => [
      pool.name,
      String(pool.workers),
      pool.draining ? "draining" : "open",
      pool.changed_by,
      pool.requires.join(", ") || "–",
      pool.topics.join(", ") || "–",
    ],
    command: "pool list",
  });
}

export async function changePool(
  io: Io,
  client: Client,
  name: string,
  lever: "drain" | "resume",
  json: boolean,
): Promise<ExitCode> {
  const pool = await client.post(`${pathTo("pools", name)}/${lever}`, {});
  if (json) printJson(io, pool);
  else
    io.out(`pool ${pool.name} ${pool.draining ? "gets nothing new; what its workers have, they finish" : "is open"}\n`);
  if (lever === "drain" && !json) io.err(`to undo it: ${io.command} pool resume ${pool.name}\n`);
  return EXIT.ok;
}

export async function listLocks(io: Io, client: Client, options: PageOptions): Promise<ExitCode> {
  return showPage(io, await client.get("/locks", { limit: options.limit }), options, {
    headers: ["LOCK", "WAITERS", "BUSY/MIN", "FENCE", "EXPIRES", "HOLDER"],
    row: (lock: Json) => [
      lock.key,
      String(lock.waiters),
      String(lock.busy_last_minute),
      String(lock.fence),
      lock.expires_at,
      lock.holder,
    ],
    command: "lock list",
  });
}
