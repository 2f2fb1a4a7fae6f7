import { formatPolicy } from "../core/retry/policies.ts";
import { BASELINE_ADMISSION_POLL, DEFAULT_ADMISSION_POLL } from "../core/retry/settings.ts";
import { count, DAY_MS, MINUTE_MS, ms, type Setting } from "./setting.ts";

export const RUN_SETTINGS = [
  {
    name: "limits.max_concurrent_runs",
    type: count("runs", 1, 1_000_000),
    default: 10,
    live: true,
    help: "Open workflow runs per tenant; starts above it are rejected with 429. For one tenant: `orgs.<id>.limits.max_concurrent_runs`.",
  },
  {
    name: "limits.list_input_bytes_max",
    type: count("bytes", 1_024, 16 * 1024 ** 3),
    default: 32 * 1024 * 1024,
    live: true,
    help: "Size of the inputs of all items of one `for_each` step; a step above it fails with `TooLarge`.",
  },
  {
    name: "admission.strategy",
    type: { kind: "choice", choices: ["atomic", "polled"] },
    default: "atomic",
    baseline: "polled",
    live: true,
    help: "How a run gets its slot: `atomic` in the commit that starts it, without waiting; `polled` under the polled admission lock of the baseline.",
  },
  {
    name: "admission.polled.policy",
    type: { kind: "retry_policy" },
    default: formatPolicy(DEFAULT_ADMISSION_POLL),
    baseline: formatPolicy(BASELINE_ADMISSION_POLL),
    live: true,
    help: "With `polled`: delay between two attempts to acquire the admission lock.",
  },
  {
    name: "admission.polled.max_wait_ms",
    type: ms(0, MINUTE_MS),
    default: 2_000,
    live: true,
    help: "With `polled`: how long a start waits for the admission lock before it is rejected with 503.",
  },
  {
    name: "admission.polled.ttl_ms",
    type: ms(1_000, 10 * MINUTE_MS),
    default: 10_000,
    live: true,
    help: "With `polled`: TTL of the admission lock.",
  },
  {
    name: "run_lock.engine_wait_ms",
    type: ms(0, MINUTE_MS),
    default: 500,
    baseline: 0,
    help: "How long a result waits in the hand-over queue of the run lock before it is retried later; 0 disables waiting.",
  },
  {
    name: "run_lock.gateway_wait_ms",
    type: ms(0, MINUTE_MS),
    default: 3_000,
    help: "How long a request waits for a run lock before it is rejected with 503.",
  },
  {
    name: "run_lock.gateway_queue",
    type: { kind: "choice", choices: ["hand_over", "polled"] },
    default: "hand_over",
    baseline: "polled",
    help: "How a request waits for a run lock: in the hand-over queue, or `polled` with the delays of `admission.polled.policy`.",
  },
  {
    name: "run_lock.ttl_ms",
    type: ms(1_000, 10 * MINUTE_MS),
    default: 30_000,
    help: "TTL of a run lock.",
  },
  {
    name: "run_lock.coalesce",
    type: { kind: "choice", choices: ["true", "false"] },
    default: "true",
    baseline: "false",
    help: "Whether concurrent results of one run in one process share one acquisition of the run lock.",
  },
  {
    name: "rollout.alpha",
    type: { kind: "choice", choices: ["0.001", "0.005", "0.01", "0.05"] },
    default: "0.01",
    live: true,
    help: "Error probability of a rollout: how likely a treatment as good as its gates is rolled back, or a worse one is proved. A rollout keeps the value it started with.",
  },
  {
    name: "contention.record",
    type: { kind: "choice", choices: ["on", "off"] },
    default: "on",
    live: true,
    help: "Whether each process records a bounded sample of its lock contention, kept for 24 hours without tenants and ids; `lab replay` and rollouts predict from it.",
  },
  {
    name: "run.deadline_ms",
    type: ms(1_000, 365 * DAY_MS),
    default: 7 * DAY_MS,
    help: "Timeout of a run whose workflow has no `timeout_sec`; after it the run ends as TIMEOUT.",
  },
  {
    name: "retention.runs_ms",
    type: ms(1_000, 3_650 * DAY_MS),
    default: 7 * DAY_MS,
    help: "Retention of finished runs, their timelines and payloads.",
  },
] as const satisfies readonly Setting[];
