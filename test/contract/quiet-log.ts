import type { Log } from "../../src/ports/log.ts";

/** Discards all log lines. */
export const quietLog: Log = { write: () => undefined };
