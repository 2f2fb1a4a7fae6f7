import type { Breaker } from "../retry/breaker.ts";
import type { Placement, Table } from "./table.ts";

/**
 * The circuit breaker before the safety kernel, as all processes share it: one record. It is written when the breaker
 * changes its kind or its probes; a closed one that counts failures does so in each process for itself.
 */
export const BREAKERS: Table<Breaker> = {
  name: "breaker",
  placement: (): Placement => ({ lists: [], queue: null, counters: [], dueMs: null }),
};

export const SAFETY_BREAKER = "safety";

/** What `cordum_safety_breaker_state` shows. */
export const BREAKER_LEVEL: Readonly<Record<Breaker["kind"], number>> = { closed: 0, half_open: 1, open: 2 };
