import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";

/** A log and metrics that only count their events. */
export interface Counting {
  readonly log: Log;
  readonly metrics: Metrics;
  readonly events: ReadonlyMap<string, number>;
  readonly counters: ReadonlyMap<string, number>;
}

export function counting(onLog: Log["write"] = () => undefined): Counting {
  const events = new Map<string, number>();
  const counters = new Map<string, number>();
  const count = (counts: Map<string, number>, name: string, amount: number): void => {
    counts.set(name, (counts.get(name) ?? 0) + amount);
  };
  return {
    events,
    counters,
    log: {
      write: (level, event, fields) => {
        count(events, event, 1);
        onLog(level, event, fields);
      },
    },
    metrics: {
      add: (name, _labels, amount = 1) => count(counters, name, amount),
      set: () => undefined,
      observe: (name) => count(counters, name, 1),
    },
  };
}
