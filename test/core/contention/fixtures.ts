import type { Acquisition, ContentionRecord } from "../../../src/core/contention/acquisition.ts";

export const acquisition = (change: Partial<Acquisition> = {}): Acquisition => ({
  ...{ key: 1, arrivedMs: 1_000, waitMs: 0, holdMs: 5, attempts: 1, path: "engine" },
  ...{ wasBlocked: false, isRefused: false },
  ...change,
});

export const record = (change: Partial<ContentionRecord> = {}): ContentionRecord => ({
  ...{ process: 7, fromMs: 0, toMs: 60_000, level: 0, dropped: 0, uncontended: 0 },
  ...{ lockMs: 0.2, returnMs: 1, nakTimerMs: 0 },
  inForce: { lockBusyPolicy: "fixed:500ms", engineWaitMs: 0, coalesce: false },
  acquisitions: [],
  ...change,
});
