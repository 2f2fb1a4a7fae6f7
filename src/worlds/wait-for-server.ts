import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../ports/log.ts";

/** Repeats `open` while the server is unreachable: the servers of a cluster may start after its processes. */
export async function waitForServer<T>(open: () => Promise<T>, { waitMs, signal, log }: Waiting): Promise<T> {
  const untilMs = performance.now() + waitMs;
  for (let delayMs = DELAY_MS_MIN; ; delayMs = Math.min(2 * delayMs, DELAY_MS_MAX)) {
    try {
      return await open();
    } catch (error) {
      const leftMs = Math.round(untilMs - performance.now());
      const { code, message } = error as { code?: unknown; message: string };
      if (leftMs <= 0 || signal?.aborted || !String(code).endsWith("_UNAVAILABLE")) throw error;
      log.write("warn", "server_unreachable", { error: message, detail: `trying again for ${describe(leftMs)}` });
      await delay(Math.min(delayMs, leftMs), undefined, { signal });
    }
  }
}

export interface Waiting {
  /** 0: one attempt. */
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly log: Log;
}

const describe = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

const DELAY_MS_MIN = 250;
const DELAY_MS_MAX = 2_000;
