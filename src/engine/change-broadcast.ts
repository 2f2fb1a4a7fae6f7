import type { Packet } from "../protocol/packet.ts";
import { CHANGED } from "../protocol/subjects.ts";
import type { Needs } from "./engine.ts";

/**
 * Broadcasts that a cached record changed, best effort. A process that misses the broadcast refreshes its cache a
 * little later, so a cache is never trusted where the commit can ask the store.
 */
export function broadcastChange(engine: Needs<"world">, what: string): void {
  const { bus, clock, log, name } = engine.world;
  const body = { kind: "alert", level: "INFO", message: `${what} changed`, component: what, code: CODE } as const;
  try {
    bus.broadcast(CHANGED, { traceId: "", senderId: name, createdAtMs: clock.now(), body });
  } catch (error) {
    log.write("debug", "change_broadcast_failed", { what, error: String(error) });
  }
}

/** The changed record kind; null for other packets and for broadcasts of this process. */
export function changeIn(engine: Needs<"world">, { senderId, body }: Packet): string | null {
  if (body.kind !== "alert" || body.code !== CODE || senderId === engine.world.name) return null;
  return body.component ?? null;
}

const CODE = "changed";
