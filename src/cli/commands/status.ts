import type { Command } from "commander";
import { formatBytes } from "../../gateway/findings/finding.ts";
import type { Client, Json } from "../client.ts";
import { addCommand, type CommandContext } from "../context.ts";
import { EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { formatDuration, plural, textFields } from "../table.ts";

export function addStatus(program: Command, { io, client, exit }: CommandContext): void {
  addCommand(program, "status", "show the status of the control plane: policy, durability, queues and workers").action(
    async (options: { json?: boolean }) => exit(await showStatus(io, client(), options.json === true)),
  );
}

async function showStatus(io: Io, client: Client, json: boolean): Promise<ExitCode> {
  const status = await client.status();
  if (json) printJson(io, status);
  else io.out(describeStatus(io, client.url, status));
  if (status.ready === true) return EXIT.ok;
  io.err(`next: ${io.command} doctor\n`);
  return EXIT.unavailable;
}

type Fields = readonly (readonly [string, string])[];

function describeStatus(io: Io, url: string, status: Json): string {
  return textFields([
    ...about(url, status),
    ...safety(status),
    ...killed(status),
    ...work(io, status),
    ...figures(status),
  ]);
}

function about(url: string, status: Json): Fields {
  const { policy, durability, warnings = [] } = status;
  const rules = plural(policy.rules, "rule");
  return [
    ["control plane", `${url}, ${status.name}, version ${status.version}, ${status.mode}, profile ${status.profile}`],
    ["ready", status.ready ? "yes" : `no: ${status.not_ready_because}`],
    ...loops(status.duties ?? {}),
    ["uptime", formatDuration(status.uptime_ms)],
    ["access", status.needs_key ? "API keys required" : "no API keys: the start-up token has admin access"],
    ["durability", `${durability.profile}: ${durability.meaning}`],
    ...diskOf(status),
    ...warnings.map((warning: string): readonly [string, string] => ["warning", warning]),
    ["policy", `${policy.source} (${rules}, default ${policy.default_decision}; snapshot ${policy.snapshot})`],
  ];
}

/** Background loops that are behind. */
function loops(duties: Readonly<Record<string, number>>): Fields {
  const behind = Object.entries(duties).filter(([, lagMs]) => lagMs > LAG_SHOWN_MS_MIN);
  return behind.map(([name, lagMs]) => ["background", `the ${name} loop is ${formatDuration(lagMs)} behind`]);
}

function diskOf({ disk }: Json): Fields {
  if (disk === undefined) return [];
  const warning = disk.low ? "; nearly full" : "";
  return [
    ["disk", `${formatBytes(disk.free_bytes)} of ${formatBytes(disk.size_bytes)} free at ${disk.path}${warning}`],
  ];
}

function safety({ safety: state = {}, ...status }: Json): Fields {
  const { kernel, breaker, breaker_reason, unreachable, fail_open = [] } = state;
  const down = unreachable === undefined ? "" : `, does not answer: ${unreachable}`;
  const why = breaker_reason === undefined ? down : `: ${breaker_reason}`;
  const leases = fail_open.map(({ id, scope, reason, ends_at }: Json): readonly [string, string] => [
    "fail-open",
    `lease ${id} for ${scope === "*" ? "all tenants" : `tenant ${scope}`} until ${ends_at}: ${reason}`,
  ]);
  const bypassed = status.input_fail_open_total;
  return [
    ["safety", `kernel ${kernel ?? "unknown"}, breaker ${breaker ?? "unknown"}${why}`],
    ...(leases.length === 0 ? [["fail-open", "no lease; all jobs are checked"] as const] : leases),
    ["bypassed", bypassed === null ? ADMIN_ONLY : `${plural(bypassed ?? 0, "job")} in total, all tenants`],
  ];
}

function killed({ kill = [] }: Json): Fields {
  return kill.map(
    ({ scope, engaged_by, engaged_by_name: name, engaged_at, reason }: Json): readonly [string, string] => [
      "kill switch",
      `dispatch of ${scope === "*" ? "all tenants" : `tenant ${scope}`} stopped by ${name ?? engaged_by} at ${engaged_at}: ${reason}`,
    ],
  );
}

function work(io: Io, status: Json): Fields {
  const whose = status.tenant === "*" ? "all tenants" : `tenant ${status.tenant}`;
  const { workers = { total: 0, leaving: 0 } } = status;
  const leaving = workers.leaving > 0 ? `, ${workers.leaving} of them leaving` : "";
  const names = (workers.items ?? []).slice(0, WORKERS_SHOWN_MAX).map(workerOf);
  const more = workers.total > names.length && names.length > 0 ? "; …" : "";
  const approvals = status.approvals > 0 ? ` (${io.command} approval list)` : "";
  const deadLetters = status.dead_letters > 0 ? ` (${io.command} dlq list)` : "";
  return [
    ["scope", whose],
    ["queued", `${plural(status.backlog_total, "job")}${counts(status.backlog)}`],
    ["running", `${plural(status.in_flight_total, "job")}${counts(status.in_flight)}`],
    ["waiting", total(status.waiting, "job")],
    ["parked", total(status.parked_retries, "retry", "retries")],
    ["approvals", `${plural(status.approvals, "job")} pending${approvals}`],
    ["dead letters", `${status.dead_letters}${deadLetters}`],
    ["runs", runsOf(status.runs ?? {})],
    ["workers", `${workers.total}${leaving}${names.length === 0 ? "" : `: ${names.join("; ")}${more}`}`],
  ];
}

function figures(status: Json): Fields {
  if (status.lock_busy_retry_count === null) return [["figures", ADMIN_ONLY]];
  const delay = status.lock_busy_retry_delay_ms ?? {};
  return [
    ["lock busy", `${plural(status.lock_busy_retry_count, "retry", "retries")}, delay ${ms("p95", delay.p95)}`],
    ["lock wait", `${ms("p95", status.run_lock_wait_ms_p95)}, ${ms("p99", status.run_lock_wait_ms_p99)}`],
    ["result latency", ms("p95", status.job_result_latency_ms_p95)],
  ];
}

const LAG_SHOWN_MS_MIN = 2_000;
const WORKERS_SHOWN_MAX = 5;
const ADMIN_ONLY = "visible to keys of tenant * only";

function workerOf({ id, active_jobs, max_parallel_jobs, topics }: Json): string {
  return `${id} (${active_jobs} of ${max_parallel_jobs ?? "unlimited"} jobs; ${topics.join(", ")})`;
}

function runsOf({ open = 0, limit, by_tenant = null }: Json): string {
  return `${open} open${limit === undefined ? "" : `, limit ${limit}`}${counts(by_tenant)}`;
}

function ms(name: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return `${name} n/a`;
  return `${name} ${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} ms`;
}

/** null: not counted per tenant. */
function total(group: Readonly<Record<string, number>> | null, one: string, many = `${one}s`): string {
  if (group === null) return ADMIN_ONLY;
  const sum = Object.values(group).reduce((all, count) => all + count, 0);
  return `${plural(sum, one, many)}${counts(group)}`;
}

function counts(group: Readonly<Record<string, number>> | null): string {
  const entries = Object.entries(group ?? {}).sort(([, a], [, b]) => b - a);
  return entries.length === 0 ? "" : `: ${entries.map(([name, count]) => `${name} ${count}`).join(", ")}`;
}
