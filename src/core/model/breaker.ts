import type { Breaker } from "../retry/breaker.ts";
import type { Placement, Table } from "./table.ts";

/**
 * The circuit breaker of the safety kernel, shared by all processes. The record is written when the state or the probes
 * change; failures of a closed breaker are counted per process.
 */
export const BREAKERS: Table<Breaker> = {
  name: "breaker",
  placement: (): Placement => ({ lists: [], queue: null, counters: [], dueMs: null }),
};

export const SAFETY_BREAKER = "safety";

/** Values of `cordum_safety_breaker_state`. */
export const BREAKER_LEVEL: Readonly<Record<Breaker["kind"], number>> = { closed: 0, half_open: 1, open: 2 };
