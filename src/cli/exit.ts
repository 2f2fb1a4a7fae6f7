/** Exit codes are API: scripts branch on them. */
export const EXIT = {
  ok: 0,
  error: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  denied: 5,
  /** Unavailable or over a limit; the same command may succeed later. */
  unavailable: 6,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** An error for the user: what is wrong, and the next command to run. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly exitCode: ExitCode;
  /** null: the help of the command that was invoked. */
  readonly next: string | null;
  /** Additional members of the error document of `--json`. */
  readonly fields: Readonly<Record<string, unknown>>;

  constructor(exitCode: ExitCode, message: string, next: string | null, facts: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.exitCode = exitCode;
    this.next = next;
    this.fields = facts;
  }
}

export function exitCodeForStatus(status: number): ExitCode {
  switch (status) {
    case 400:
    case 408:
    case 413:
    case 414:
    case 415:
    case 431:
      return EXIT.usage;
    case 401:
    case 402:
    case 403:
      return EXIT.denied;
    case 404:
      return EXIT.notFound;
    case 409:
    case 422:
      return EXIT.conflict;
    case 429:
    case 502:
    case 503:
    case 504:
      return EXIT.unavailable;
    default:
      return EXIT.error;
  }
}

/** The next command by error code. null: the help of the command. `ID` and `RUN` are replaced by the job or run of the error. */
export const NEXT: Readonly<Record<string, string | null>> = {
  invalid_request: null,
  invalid_submission: null,
  invalid_cursor: null,
  invalid_workflow: null,
  invalid_run: null,
  invalid_policy: "cordum policy check FILE",
  invalid_policy_tests: null,
  policy_tests_failed: "cordum policy test --help",
  key_missing: "export CORDUM_API_KEY=KEY",
  key_invalid: "export CORDUM_API_KEY=KEY",
  key_expired: "export CORDUM_API_KEY=KEY",
  key_revoked: "export CORDUM_API_KEY=KEY",
  forbidden: "cordum key create --help",
  tenant_forbidden: "unset CORDUM_TENANT",
  own_job: "cordum job explain ID",
  person_required: "cordum key create --help",
  job_not_found: "cordum job list",
  workflow_not_found: "cordum workflow list",
  run_not_found: "cordum run list",
  step_not_found: "cordum run get RUN",
  dead_letter_not_found: "cordum dlq list",
  lease_not_found: "cordum failopen list",
  key_not_found: "cordum key list",
  snapshot_not_found: "cordum policy list",
  worker_not_found: "cordum worker list",
  pool_not_found: "cordum pool list",
  not_waiting: "cordum job explain ID",
  run_ended: "cordum run get RUN",
  run_open: "cordum run explain RUN",
  approval_void: "cordum approval list",
  approval_expired: "cordum dlq retry ID",
  too_many_leases: "cordum failopen list",
  rollout_not_found: "cordum rollout list",
  schedule_not_found: "cordum schedule list",
  rollout_active: "cordum rollout status",
  rollout_state: "cordum rollout list",
  rollout_not_proved: "cordum rollout status",
  rollout_limit: "cordum rollout list",
  unreadable: "cordum dlq list",
  no_earlier_policy: "cordum policy list",
  first_key: "cordum key create --tenant '*' --role admin",
  last_key: "cordum key create --tenant '*' --role admin",
  too_many_keys: "cordum key list",
  too_many_runs: "cordum run list --state RUNNING",
  gate_unavailable: "cordum doctor",
  lock_busy: "cordum lock list",
  safety_unavailable: "cordum doctor",
  store_unavailable: "cordum doctor",
  not_ready: "cordum doctor",
};

export function nextFor(status: number, { code, job_id, run_id }: Readonly<Record<string, unknown>>): string | null {
  const known = typeof code === "string" ? NEXT[code] : undefined;
  if (known === null) return null;
  if (known?.endsWith(" ID")) return isPlain(job_id) ? known.replace(/ID$/, job_id) : "cordum job list";
  if (known?.endsWith(" RUN")) return isPlain(run_id) ? known.replace(/RUN$/, run_id) : "cordum run list";
  if (known !== undefined) return known;
  if (isPlain(job_id)) return `cordum job get ${job_id}`;
  if (isPlain(run_id)) return `cordum run get ${run_id}`;
  return status === 400 ? null : "cordum status";
}

/** Whether an id needs no shell quoting. */
function isPlain(id: unknown): id is string {
  return typeof id === "string" && /^[\w.:@-]+$/.test(id);
}
