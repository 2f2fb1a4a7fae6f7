import type { Client, Json } from "./client.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { type Io, printJson } from "./io.ts";

export async function showStatus(io: Io, client: Client, json: boolean): Promise<ExitCode> {
  const status = await client.get("/status");
  if (json) printJson(io, status);
  else io.out(describeStatus(client.url, status));
  return status.ready === true ? EXIT.fine : EXIT.tryAgain;
}

function describeStatus(url: string, status: Json): string {
  const { policy, durability } = status;
  const lines: [string, string][] = [
    ["control plane", `${url}, ${status.name}, version ${status.version}, ${status.mode}, profile ${status.profile}`],
    ["ready", status.ready ? "yes" : `no: ${status.not_ready_because}`],
    ["up for", `${Math.round(status.uptime_ms / 1_000)} s`],
    ["durability", `${durability.profile}: ${durability.meaning}`],
    [
      "policy",
      `${policy.source} (${policy.rules} rules, else ${policy.default_decision}; snapshot ${policy.snapshot})`,
    ],
    ["backlog", counts(status.backlog)],
    ["in flight", counts(status.in_flight)],
    ["parked", counts(status.parked_retries)],
    ["dead letters", String(status.dead_letters)],
    ["lock busy", `${status.lock_busy_retry_count} retries`],
    ["result latency", status.job_result_latency_ms_p95 === null ? "–" : `p95 ${status.job_result_latency_ms_p95} ms`],
  ];
  return lines.map(([key, text]) => `${key.padEnd(15)}${text}\n`).join("");
}

function counts(group: Readonly<Record<string, number>>): string {
  const entries = Object.entries(group);
  return entries.length === 0 ? "none" : entries.map(([name, count]) => `${name} ${count}`).join(", ");
}
