/** Worlds on real storage with a kernel that allows everything and a log that is dropped. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TimeSource } from "../../src/ports/steady-clock.ts";
import { counting } from "../../src/sim/adapters/counting.ts";
import { openCluster } from "../../src/worlds/cluster.ts";
import { openEmbedded } from "../../src/worlds/embedded.ts";
import { startNats, startRedis } from "../servers/start.ts";

export type BackendKind = "embedded" | "NATS + Redis";

/** The data directory or servers of a world, which can be opened repeatedly. */
export type Backend = { readonly dir: string } | { readonly nats: string; readonly redis: string };

export async function withBackend<T>(kind: BackendKind, work: (backend: Backend) => Promise<T>): Promise<T> {
  if (kind === "embedded") {
    const dir = mkdtempSync(join(tmpdir(), "cordum-backend-"));
    try {
      return await work({ dir });
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  }
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  try {
    return await work({ nats: nats.url, redis: redis.url });
  } finally {
    await Promise.all([nats.stop(), redis.stop()]);
  }
}

export function openWorld(backend: Backend, name: string, time?: TimeSource) {
  const { log, metrics } = counting();
  const decision = { effect: "allow", ruleId: null, reason: "", snapshot: "" } as const;
  const safety = { local: () => decision, check: async () => ({ kind: "decided", decision }) as const };
  const bus = { ackWaitMs: 30_000, deliverMax: 100, inFlightMax: 256 };
  const parts = { name, log, metrics, safety, bus, ...(time && { time }) };
  return "dir" in backend ? openEmbedded({ ...parts, ...backend }) : openCluster({ ...parts, ...backend });
}
