// The settings that are API, with their default and baseline values.

import { describe, expect, test } from "vitest";
import { SETTINGS, settingNamed } from "../../src/config/table.ts";
import { good } from "./configured.ts";

/** Name, default, baseline value if it differs. */
const PROMISED: readonly (readonly [
  name: string,
  normal: string | number | null,
  baseline?: string | number | null,
])[] = [
  ["profile", "default"],
  ["http.host", "127.0.0.1"],
  ["http.port", 8081],
  ["limits.max_concurrent_runs", 10],
  ["limits.max_concurrent_jobs", null],
  ["admission.strategy", "atomic", "polled"],
  ["admission.polled.policy", "bounded:10ms:0.5", "fixed:10ms"],
  ["admission.polled.max_wait_ms", 2_000],
  ["admission.polled.ttl_ms", 10_000],
  ["retry.poison.policy", "fixed:5s"],
  ["retry.poison.budget", "3"],
  ["retry.unclassified.policy", "full:1s:30s", "capped_exponential:1s:30s:500ms"],
  ["retry.unclassified.budget", "8"],
  ["retry.lock_busy.policy", "bounded:500ms:0.3", "fixed:500ms"],
  ["retry.lock_busy.budget", "10m"],
  ["retry.store_unavailable.policy", "full:1s:30s", "capped_exponential:1s:30s:500ms"],
  ["retry.store_unavailable.budget", "deadline"],
  ["retry.safety_unavailable.policy", "full:1s:30s", "fixed:5s"],
  ["retry.safety_unavailable.budget", "deadline"],
  ["retry.no_worker.policy", "full:1s:30s", "capped_exponential:1s:30s:500ms"],
  ["retry.no_worker.budget", "deadline"],
  ["retry.throttled.policy", "full:1s:30s", "fixed:5s"],
  ["retry.throttled.budget", "deadline"],
  ["job.deadline_ms", 86_400_000],
  ["job.lock_ttl_ms", 60_000],
  ["run_lock.engine_wait_ms", 500, 0],
  ["run_lock.gateway_wait_ms", 3_000],
  ["run_lock.gateway_queue", "hand_over", "polled"],
  ["run_lock.ttl_ms", 30_000],
  ["run_lock.coalesce", "true", "false"],
  ["bus.ack_wait_ms", 30_000, 600_000],
  ["bus.max_deliver", 100],
  ["bus.max_ack_pending", 1_024],
  ["bus.park_after_ms", 2_000, null],
  ["safety.address", null],
  ["safety.timeout_ms", 1_000],
  ["safety.fail_mode", "closed"],
  ["retention.jobs_ms", 604_800_000],
  ["retention.runs_ms", 604_800_000],
];

describe.each(PROMISED.map((row) => ({ row, name: row[0] })))("$name", ({ row: [name, normal, baseline = normal] }) => {
  const setting = settingNamed(name);
  if (setting === undefined) throw new Error(`unknown setting \`${name}\``);

  test("has its default", () => expect(good({}).values[setting.name]).toBe(normal));

  test("has its baseline value with `profile: baseline`, and that origin", () => {
    const { values, origins } = good({ env: { CORDUM_PROFILE: "baseline" } });
    expect(values[setting.name]).toBe(name === "profile" ? "baseline" : baseline);
    if (name !== "profile") expect(origins[setting.name].kind).toBe(baseline === normal ? "default" : "baseline");
  });

  test("can be set in the file and in the environment, with any profile", () => {
    const [written, read] = otherThan(normal, baseline);
    const env = { [`CORDUM_${name.replaceAll(".", "_").toUpperCase()}`]: String(written) };
    const file = { name: "cordum.yaml", text: `${JSON.stringify(name)}: ${JSON.stringify(written)}\n` };
    for (const sources of [{ env }, { file }]) {
      const needs = name === "profile" ? {} : { CORDUM_PROFILE: "baseline" };
      const { values } = good({ ...sources, env: { ...needs, ...("env" in sources ? sources.env : {}) } });
      expect(values[setting.name]).toBe(read);
    }
  });

  /** A value that is none of these, as written and as read. */
  function otherThan(
    ...those: readonly (string | number | null)[]
  ): readonly [string | number, string | number | null] {
    const { type } = setting ?? {};
    switch (type?.kind) {
      case "whole":
        return [type.max, type.max];
      case "choice": {
        const choice = type.choices.find((one) => !those.includes(one)) ?? String(those[0]);
        return [choice, choice];
      }
      case "retry_policy":
        return ["fixed:123ms", "fixed:123ms"];
      case "retry_budget":
        return ["7", "7"];
      default:
        return ["127.0.0.2:1", "127.0.0.2:1"];
    }
  }
});

test("the baseline profile changes these settings and no other", () => {
  const changed = SETTINGS.filter(({ baseline }) => baseline !== undefined).map(({ name }) => name);
  const promised = PROMISED.filter((row) => row.length === 3).map(([name]) => name);
  expect([...changed].sort()).toEqual([...promised].sort());
});

test("the fail mode is also read as POLICY_CHECK_FAIL_MODE", () => {
  const { values, origins } = good({ env: { POLICY_CHECK_FAIL_MODE: "open" } });
  expect(values["safety.fail_mode"]).toBe("open");
  expect(origins["safety.fail_mode"].place).toBe("POLICY_CHECK_FAIL_MODE");
});

test("a tenant's limit overrides the global limit", () => {
  const text =
    "limits: {max_concurrent_runs: 3}\norgs: {acme: {limits: {max_concurrent_runs: 5, max_concurrent_jobs: 4}}}\n";
  const { settings } = good({ file: { name: "cordum.yaml", text } });
  expect(settings.limits.concurrentRunsMax).toBe(3);
  expect(settings.orgs.acme?.limits).toEqual({ concurrentRunsMax: 5, concurrentJobsMax: 4 });
});
