/** Explanations, dry runs, the live event feed and gauges. */
export { type AppliedEvent, ContentionRecorder } from "./contention-recorder.ts";
export { dryRerun } from "./dry-rerun.ts";
export { type DryRun, type DryStep, dryRun } from "./dry-run.ts";
export { EventFeed, type JobUpdate, type RolloutUpdate, type RunUpdate } from "./event-feed.ts";
export { EventReplay, type RecordedEvent, type StreamUpdate } from "./event-replay.ts";
export { explain } from "./explain-job.ts";
export { explainRun, type RunWait } from "./explain-run.ts";
export { explainWorkerNow } from "./explain-worker.ts";
export { Gauges } from "./gauges.ts";
export { type Load, readLoad } from "./load.ts";
export { LoadGauges } from "./load-gauges.ts";
export { predictRollout, readContention } from "./predict-rollout.ts";
export { BIN_MS, BINS, poissonCounts, RetryArrivals } from "./retry-arrivals.ts";
export { Throughput } from "./throughput.ts";
