// Starts new servers with equal settings for every measurement.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunningServer } from "../../test/servers/server.ts";
import { startNats, startRedis } from "../../test/servers/start.ts";
import type { BackendSpec } from "../child/task.ts";
import { databaseUrl, startPostgres } from "./postgres.ts";

/** A compared system, without the addresses of its servers. */
export interface System {
  readonly name: string;
  readonly kind: BackendSpec["kind"];
  readonly concurrency: number;
  readonly queues?: "one" | "each";
}

export interface Servers {
  readonly backend: BackendSpec;
  readonly serverPids: readonly number[];
}

/** Runs `work` with new servers or a new data folder, and removes them afterwards. */
export async function withFreshServers<T>(system: System, work: (servers: Servers) => Promise<T>): Promise<T> {
  const { kind, concurrency } = system;
  const servers: RunningServer[] = [];
  const started = async (starting: Promise<RunningServer>) => {
    const server = await starting;
    servers.push(server);
    return server;
  };
  const dataDir = kind === "embedded" ? await mkdtemp(join(tmpdir(), "cordum-bench-")) : "";
  try {
    const backend = await backendOf();
    return await work({ backend, serverPids: servers.map((server) => server.pid) });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    if (dataDir !== "") await rm(dataDir, { recursive: true, force: true });
  }

  async function backendOf(): Promise<BackendSpec> {
    if (kind === "embedded") return { kind, dataDir, concurrency };
    if (kind === "dbos") return { kind, postgresUrl: databaseUrl(await started(startPostgres())), concurrency };
    const redisUrl = (await started(startRedis(REDIS_DURABILITY))).url;
    if (kind === "bullmq") return { kind, redisUrl, concurrency, ...(system.queues && { queues: system.queues }) };
    const natsUrl = (await started(startNats())).url;
    return { kind, redisUrl, natsUrl, concurrency };
  }
}

/** As BullMQ's documentation recommends for production; used for all systems. */
export const REDIS_DURABILITY = { appendonly: true, appendfsync: "everysec" } as const;
