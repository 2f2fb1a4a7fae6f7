/** The next command after a refusal: what to look at, or what to do about it. */

/** null: the help of the command that was typed. `ID` stands for the job that the refusal is about. */
export const NEXT: Readonly<Record<string, string | null>> = {
  invalid_request: null,
  invalid_submission: null,
  invalid_cursor: null,
  invalid_policy: "cordum policy check FILE",
  key_missing: "export CORDUM_API_KEY=KEY",
  key_invalid: "export CORDUM_API_KEY=KEY",
  key_expired: "export CORDUM_API_KEY=KEY",
  key_revoked: "export CORDUM_API_KEY=KEY",
  forbidden: "cordum key create --help",
  tenant_forbidden: "unset CORDUM_TENANT",
  own_job: "cordum job explain ID",
  job_not_found: "cordum job list",
  dead_letter_not_found: "cordum dlq list",
  lease_not_found: "cordum failopen list",
  key_not_found: "cordum key list",
  snapshot_not_found: "cordum policy list",
  worker_not_found: "cordum worker list",
  pool_not_found: "cordum pool list",
  not_waiting: "cordum job explain ID",
  approval_void: "cordum approval list",
  approval_expired: "cordum dlq retry ID",
  too_many_leases: "cordum failopen list",
  unreadable: "cordum dlq list",
  no_earlier_policy: "cordum policy list",
  first_key: "cordum key create --tenant '*' --role admin",
  last_key: "cordum key create --tenant '*' --role admin",
  too_many_keys: "cordum key list",
  safety_unavailable: "cordum doctor",
  store_unavailable: "cordum doctor",
  not_ready: "cordum doctor",
};

export function nextFor(status: number, { code, job_id }: Readonly<Record<string, unknown>>): string | null {
  const known = typeof code === "string" ? NEXT[code] : undefined;
  const isNamed = typeof job_id === "string" && /^[\w.:-]+$/.test(job_id);
  if (known === null) return null;
  if (known?.endsWith(" ID")) return isNamed ? known.replace(/ID$/, job_id) : "cordum job list";
  if (known !== undefined) return known;
  if (isNamed) return `cordum job get ${job_id}`;
  return status === 400 ? null : "cordum status";
}
