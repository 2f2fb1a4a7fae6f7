import { Type } from "typebox";
import { BUDGET_USE } from "./budget-views.ts";
import { instant, orNull, TEXT_OR_NULL } from "./schemas.ts";

const count = Type.Integer();
const counts = (description: string) => Type.Record(Type.String(), Type.Integer(), { description });
const figure = (description: string) => orNull(Type.Number({ description }));
const optionalText = Type.Optional(Type.String());

/** The process that answered. */
const PROCESS = {
  name: Type.String(),
  version: Type.String(),
  profile: Type.String(),
  mode: Type.Enum(["embedded", "cluster"]),
  durability: Type.Object({ profile: Type.String(), meaning: Type.String() }),
  warnings: Type.Array(Type.String(), { description: "About the backing servers; empty for a key of one tenant." }),
  servers: Type.Optional(
    Type.Object({
      nats: Type.Object({ version: Type.String() }),
      redis: Type.Object({
        product: Type.String(),
        version: Type.String(),
        durability: Type.String(),
        maxmemory_policy: TEXT_OR_NULL,
        went_back_at: TEXT_OR_NULL,
      }),
    }),
  ),
  signatures: Type.Optional(Type.Object({ mode: Type.Enum(["off", "warn", "enforce"]), has_key: Type.Boolean() })),
  safety_address: optionalText,
  safety_line: Type.Optional(Type.Enum(["plain", "tls"])),
  uptime_ms: count,
  needs_key: Type.Boolean({ description: "True once an API key exists." }),
};

const QUEUES = {
  backlog: counts("Jobs awaiting dispatch, by topic."),
  backlog_total: count,
  in_flight: orNull(counts("Dispatched jobs, by topic.")),
  in_flight_total: Type.Integer({ description: "Dispatched jobs." }),
  waiting: orNull(counts("Waiting jobs, by retry class.")),
  parked_retries: orNull(counts("Messages parked for a retry, by subject.")),
  approvals: Type.Integer({ description: "Jobs awaiting approval." }),
  approvals_by_tenant: Type.Optional(counts("For a key of tenant `*`.")),
  dead_letters: count,
  dead_letters_by_tenant: Type.Optional(counts("For a key of tenant `*`.")),
  runs: Type.Object(
    {
      open: Type.Integer({ description: "Open runs." }),
      limit: Type.Optional(Type.Integer({ description: "`limits.max_concurrent_runs` of the tenant." })),
      by_tenant: Type.Optional(counts("Open runs.")),
    },
    { description: "`limit` for one tenant, `by_tenant` for all." },
  ),
};

const WORKERS = Type.Object(
  {
    total: count,
    leaving: count,
    items: Type.Optional(
      Type.Array(
        Type.Object({
          id: Type.String(),
          topics: Type.Array(Type.String()),
          pool: TEXT_OR_NULL,
          transport: Type.String(),
          active_jobs: count,
          max_parallel_jobs: orNull(Type.Integer()),
          seen_ago_ms: count,
          leaving: Type.Boolean(),
        }),
        { description: "For a key of tenant `*`." },
      ),
    ),
  },
  { description: "Workers that serve the tenant." },
);

const SAFETY = Type.Object({
  kernel: Type.String(),
  breaker: Type.String({ description: "State of the circuit breaker." }),
  breaker_reason: optionalText,
  unreachable: Type.Optional(Type.String({ description: "Why a remote kernel does not answer now; for operators." })),
  fail_open: Type.Array(
    Type.Object({ id: Type.String(), scope: Type.String(), reason: Type.String(), ends_at: instant("End.") }),
    { description: "Fail-open leases in force." },
  ),
});

/** For keys of tenant `*`. */
const LOAD = {
  open_jobs: Type.Optional(
    Type.Object(
      { total: count, by_tenant: counts("The 20 tenants with the most.") },
      { description: "Jobs that have not ended." },
    ),
  ),
  disk: Type.Optional(
    Type.Object(
      {
        path: Type.String(),
        free_bytes: count,
        size_bytes: count,
        low: Type.Boolean({ description: "Less is free than `diagnosis.disk_free_min`." }),
      },
      { description: "The disk of the data directory; absent in a cluster." },
    ),
  ),
};

const FIGURES = {
  lock_busy_retry_count: figure("Retries because a run lock was busy."),
  lock_busy_retry_delay_ms: orNull(Type.Object({ p50: figure(""), p95: figure("") })),
  run_lock_wait_ms_p95: figure("Wait for the run lock."),
  run_lock_wait_ms_p99: figure("Wait for the run lock."),
  job_result_latency_ms_p95: figure("From the result of a worker to its commit."),
  input_fail_open_total: Type.Union([Type.Integer(), Type.Null()], {
    description:
      "Total jobs of all tenants that bypassed the safety check; like the figures, only for keys of tenant `*`.",
  }),
};

/** `duties` and `kill` belong to the routes of these nouns. */
export const statusSchema = (duties: ReturnType<typeof Type.Record>, kill: ReturnType<typeof Type.Object>) =>
  Type.Object(
    {
      ...PROCESS,
      policy: Type.Object({
        source: Type.String(),
        version: TEXT_OR_NULL,
        snapshot: Type.String(),
        rules: count,
        default_decision: Type.String(),
        release_id: TEXT_OR_NULL,
      }),
      tenant: Type.String({ description: "The tenant of the numbers; `*` for all tenants." }),
      ready: Type.Boolean(),
      not_ready_because: optionalText,
      duties,
      ...QUEUES,
      workers: WORKERS,
      budgets: Type.Array(BUDGET_USE, {
        description: "Use of the policy's budgets by tenant, day and label, the most used first, at most 100.",
      }),
      kill: Type.Array(kill, { description: "Engaged kill switches: jobs of their scope are not dispatched." }),
      safety: SAFETY,
      ...LOAD,
      ...FIGURES,
    },
    { title: "Status" },
  );
