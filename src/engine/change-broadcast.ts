import type { Packet } from "../protocol/packet.ts";
import { CHANGED } from "../protocol/subjects.ts";
import type { Flow } from "./engine.ts";

/**
 * "Something that you keep a copy of has changed": told to all other processes, best effort. Who misses it finds out by
 * itself, a little later; so a copy is never trusted for what the store can be asked in the same commit.
 */
export function tellChanged(flow: Flow, what: string): void {
  const { bus, clock, log, name } = flow.world;
  const body = { kind: "alert", level: "INFO", message: `${what} changed`, component: what, code: CODE } as const;
  try {
    bus.tell(CHANGED, { traceId: "", senderId: name, createdAtMs: clock.now(), body });
  } catch (error) {
    log.write("debug", "change_not_told", { what, error: String(error) });
  }
}

/** What has changed; null for a packet that says something else, or that this process has sent itself. */
export function changedIn(flow: Flow, { senderId, body }: Packet): string | null {
  if (body.kind !== "alert" || body.code !== CODE || senderId === flow.world.name) return null;
  return body.component ?? null;
}

const CODE = "changed";
