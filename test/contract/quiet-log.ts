import type { Log } from "../../src/ports/log.ts";

/** For tests that provoke what would be logged. */
export const quietLog: Log = { write: () => undefined };
