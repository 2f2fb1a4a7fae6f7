import { JOBS, waitingOn } from "../../core/model/job.ts";
import { PARKED_GROUP } from "../../core/model/parked-message.ts";
import { RETRY_CLASSES } from "../../core/retry/retry-classes.ts";
import type { Needs } from "../engine.ts";

/**
 * Gauges set by each sweep: backlog length and age, parked retries, retry arrivals. Only the topics with the longest
 * backlogs are labels, because clients choose topic names. A topic that disappears is set to 0.
 */
export class Gauges {
  #shown: readonly string[] = [];

  async show(engine: Needs<"world" | "arrivals">, backlog: ReadonlyMap<string, number>): Promise<void> {
    const { metrics, store, clock } = engine.world;
    const longest = [...backlog].sort(([, a], [, b]) => b - a).slice(0, TOPICS_SHOWN_MAX);
    const [parked, ...oldest] = await Promise.all([
      store.counts(PARKED_GROUP, RETRY_CLASSES.length),
      ...longest.map(([topic]) => store.list(JOBS, { index: waitingOn(topic), limit: 1, order: "oldest" })),
    ]);
    for (const retryClass of RETRY_CLASSES) {
      metrics.set("cordum_parked_retries", parked.get(retryClass) ?? 0, { class: retryClass });
    }
    const nowMs = clock.now();
    for (const [retryClass, ratio] of engine.arrivals.peakToMean(nowMs)) {
      metrics.set("cordum_retry_arrivals_peak_to_mean", ratio, { class: retryClass });
    }
    for (const topic of this.#shown) {
      if (backlog.has(topic)) continue;
      metrics.set("cordum_queue_lag", 0, { subject: topic });
      metrics.set("cordum_queue_oldest_seconds", 0, { subject: topic });
    }
    for (const [at, [topic, length]] of longest.entries()) {
      const createdMs = oldest[at]?.items[0]?.value.createdMs ?? nowMs;
      metrics.set("cordum_queue_lag", length, { subject: topic });
      metrics.set("cordum_queue_oldest_seconds", Math.max(0, nowMs - createdMs) / 1_000, { subject: topic });
    }
    this.#shown = longest.map(([topic]) => topic);
  }
}

const TOPICS_SHOWN_MAX = 100;
