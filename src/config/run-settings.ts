/** Settings of workflow runs: how many, how they are admitted, how their lock is waited for, how long they are kept. */
import { formatPolicy } from "../core/retry/policies.ts";
import { BASELINE_ADMISSION_POLL, DEFAULT_ADMISSION_POLL } from "../core/retry/settings.ts";
import { count, DAY_MS, MINUTE_MS, ms, type Setting } from "./setting.ts";

export const RUN_SETTINGS = [
  {
    name: "limits.max_concurrent_runs",
    type: count("runs", 1, 1_000_000),
    default: 10,
    live: true,
    help: "Workflow runs of one tenant that may be open at the same time; more are refused with 429. Per tenant: `orgs.<id>.limits.max_concurrent_runs`.",
  },
  {
    name: "admission.strategy",
    type: { kind: "choice", choices: ["atomic", "polled"] },
    default: "atomic",
    founding: "polled",
    live: true,
    help: "How a run gets its slot: `atomic` in the one write that starts it, without waiting; `polled` behind the founding lock.",
  },
  {
    name: "admission.polled.policy",
    type: { kind: "retry_policy" },
    default: formatPolicy(DEFAULT_ADMISSION_POLL),
    founding: formatPolicy(BASELINE_ADMISSION_POLL),
    live: true,
    help: "With `polled`: how long to wait before the admission lock is asked again.",
  },
  {
    name: "admission.polled.max_wait_ms",
    type: ms(0, MINUTE_MS),
    default: 2_000,
    live: true,
    help: "With `polled`: how long a start waits for the admission lock before it is refused with 503.",
  },
  {
    name: "admission.polled.ttl_ms",
    type: ms(1_000, 10 * MINUTE_MS),
    default: 10_000,
    live: true,
    help: "With `polled`: how long the admission lock outlives a holder that died.",
  },
  {
    name: "run_lock.engine_wait_ms",
    type: ms(0, MINUTE_MS),
    default: 500,
    founding: 0,
    help: "How long a result waits in the hand-over queue of its run's lock before it is tried again later; 0 for not at all.",
  },
  {
    name: "run_lock.gateway_wait_ms",
    type: ms(0, MINUTE_MS),
    default: 3_000,
    help: "How long a request waits for a run's lock before it is refused with 503.",
  },
  {
    name: "run_lock.gateway_queue",
    type: { kind: "choice", choices: ["hand_over", "polled"] },
    default: "hand_over",
    founding: "polled",
    help: "How it waits: in the queue, woken when the lock is free; or `polled` at the pace of `admission.polled.policy`.",
  },
  {
    name: "run_lock.ttl_ms",
    type: ms(1_000, 10 * MINUTE_MS),
    default: 30_000,
    help: "How long a run's lock outlives a holder that died.",
  },
  {
    name: "run_lock.coalesce",
    type: { kind: "choice", choices: ["true", "false"] },
    default: "true",
    founding: "false",
    help: "Whether results of one run that meet in one process share one turn of its lock.",
  },
  {
    name: "run.deadline_ms",
    type: ms(1_000, 365 * DAY_MS),
    default: 7 * DAY_MS,
    help: "A run's own patience, where its workflow has no `timeout_sec`: after this it ends as TIMEOUT.",
  },
  {
    name: "retention.runs_ms",
    type: ms(1_000, 3_650 * DAY_MS),
    default: 7 * DAY_MS,
    help: "How long finished runs are kept; then they are removed with their timelines and payloads.",
  },
] as const satisfies readonly Setting[];
