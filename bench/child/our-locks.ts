import type { LockClient } from "./lock-peers.ts";
export async function openOurLocks(_redisUrl: string, _ttlMs: number, _waitMs: number): Promise<LockClient> {
  throw new Error("not yet");
}
