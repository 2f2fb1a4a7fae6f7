/** The next command after a refusal: what to look at, or what to do about it. */

/** null: the help of the command that was typed. `ID` and `RUN` stand for the job or run that the refusal is about. */
export const NEXT: Readonly<Record<string, string | null>> = {
  invalid_request: null,
  invalid_submission: null,
  invalid_cursor: null,
  invalid_workflow: null,
  invalid_run: null,
  invalid_policy: "cordum policy check FILE",
  key_missing: "export CORDUM_API_KEY=KEY",
  key_invalid: "export CORDUM_API_KEY=KEY",
  key_expired: "export CORDUM_API_KEY=KEY",
  key_revoked: "export CORDUM_API_KEY=KEY",
  forbidden: "cordum key create --help",
  tenant_forbidden: "unset CORDUM_TENANT",
  own_job: "cordum job explain ID",
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

/** Whether it can stand in a command to be typed as it is. */
function isPlain(id: unknown): id is string {
  return typeof id === "string" && /^[\w.:@-]+$/.test(id);
}
