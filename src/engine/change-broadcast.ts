import type { Packet } from "../protocol/packet.ts";
import { CHANGED } from "../protocol/subjects.ts";
import type { Needs } from "./engine.ts";

/**
 * "Something that you keep a copy of has changed": told to all other processes, best effort. Who misses it finds out by
 * itself, a little later; so a copy is never trusted for what the store can be asked in the same commit.
 */
export function broadcastChange(engine: Needs<"world">, what: string): void {
  const { bus, clock, log, name } = engine.world;
  const body = { kind: "alert", level: "INFO", message: `${what} changed`, component: what, code: CODE } as const;
  try {
    bus.broadcast(CHANGED, { traceId: "", senderId: name, createdAtMs: clock.now(), body });
  } catch (error) {
    log.write("debug", "change_not_told", { what, error: String(error) });
  }
}

/** What has changed; null for a packet that says something else, or that this process has sent itself. */
export function changeIn(engine: Needs<"world">, { senderId, body }: Packet): string | null {
  if (body.kind !== "alert" || body.code !== CODE || senderId === engine.world.name) return null;
  return body.component ?? null;
}

const CODE = "changed";
