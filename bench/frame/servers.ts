// Fresh servers for every measurement: the same settings for everybody, and nobody's leftovers.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RunningServer } from "../../test/servers/server.ts";
import { startNats, startRedis } from "../../test/servers/start.ts";
import type { SideSpec } from "../child/task.ts";
import { databaseUrl, startPostgres } from "./postgres.ts";

/** One of the compared systems, before it is known where its servers are. */
export interface System {
  readonly name: string;
  readonly kind: SideSpec["kind"];
  readonly concurrency: number;
  readonly queues?: "one" | "each";
}

export interface Ground {
  readonly side: SideSpec;
  readonly serverPids: readonly number[];
}

/** Gives `work` a system on servers or in a folder of its own, and clears up behind it. */
export async function onFreshGround<T>(system: System, work: (ground: Ground) => Promise<T>): Promise<T> {
  const { kind, concurrency } = system;
  const servers: RunningServer[] = [];
  const started = async (starting: Promise<RunningServer>) => {
    const server = await starting;
    servers.push(server);
    return server;
  };
  const dataDir = kind === "embedded" ? await mkdtemp(join(tmpdir(), "cordum-bench-")) : "";
  try {
    const side = await sideOf();
    return await work({ side, serverPids: servers.map((server) => server.pid) });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    if (dataDir !== "") await rm(dataDir, { recursive: true, force: true });
  }

  async function sideOf(): Promise<SideSpec> {
    if (kind === "embedded") return { kind, dataDir, concurrency };
    if (kind === "dbos") return { kind, postgresUrl: databaseUrl(await started(startPostgres())), concurrency };
    const redisUrl = (await started(startRedis(REDIS_DURABILITY))).url;
    if (kind === "bullmq") return { kind, redisUrl, concurrency, ...(system.queues && { queues: system.queues }) };
    const natsUrl = (await started(startNats())).url;
    return { kind, redisUrl, natsUrl, concurrency };
  }
}

/** What BullMQ's documentation recommends for production; the same for ours. */
export const REDIS_DURABILITY = { appendonly: true, appendfsync: "everysec" } as const;
