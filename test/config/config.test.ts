import { describe, expect, test } from "vitest";
import {
  baselineSettings,
  configure,
  defaultSettings,
  LiveConfig,
  type Sources,
  settingsFrom,
} from "../../src/config/config.ts";
import { parseValue } from "../../src/config/parse.ts";
import { environmentName, SETTING_NAMES, SETTINGS } from "../../src/config/table.ts";
import { good, problemsOf } from "./configured.ts";

const file = (text: string) => ({ name: "cordum.yaml", text });

describe("settings table", () => {
  test("every default and baseline value is valid", () => {
    for (const setting of SETTINGS) {
      expect(parseValue(setting, setting.default), setting.name).toBe(setting.default);
      if (setting.baseline !== undefined) expect(parseValue(setting, setting.baseline)).toBe(setting.baseline);
    }
  });

  test("names and environment variables are unique", () => {
    expect(new Set(SETTING_NAMES).size).toBe(SETTING_NAMES.length);
    expect(new Set(SETTING_NAMES.map(environmentName)).size).toBe(SETTING_NAMES.length);
    expect(environmentName("bus.park_after_ms")).toBe("CORDUM_BUS_PARK_AFTER_MS");
  });

  test("every setting has a help text, and durations end in _ms", () => {
    for (const setting of SETTINGS) {
      expect(setting.help, setting.name).toMatch(/^.+\.$/);
      if (setting.type.kind === "whole" && setting.type.unit === "ms") expect(setting.name).toMatch(/_ms$/);
    }
  });
});

describe("precedence", () => {
  const text = "bus:\n  park_after_ms: 100\n  ack_wait_ms: 5000\nhttp: {port: 1111}\n";
  const env = { CORDUM_BUS_ACK_WAIT_MS: "6000", CORDUM_HTTP_PORT: "2222" };
  const flags = [{ name: "http.port", value: "3333", flag: "--port" }] as const;

  test("flags override the environment, the file and the defaults, in this order", () => {
    const { values, origins } = good({ file: file(text), env, flags });
    expect(values["http.port"]).toBe(3333);
    expect(values["bus.ack_wait_ms"]).toBe(6000);
    expect(values["bus.park_after_ms"]).toBe(100);
    expect(values["bus.max_deliver"]).toBe(100);
    expect(origins["http.port"]).toEqual({ kind: "flag", place: "--port" });
    expect(origins["bus.ack_wait_ms"]).toEqual({ kind: "environment", place: "CORDUM_BUS_ACK_WAIT_MS" });
    expect(origins["bus.park_after_ms"]).toEqual({ kind: "file", place: "cordum.yaml:2" });
    expect(origins["bus.max_deliver"]).toEqual({ kind: "default", place: "default" });
  });

  test("builds deeply frozen engine and process settings", () => {
    const config = good({ file: file(text), env, flags });
    expect(config.settings.bus).toMatchObject({ parkAfterMs: 100, ackWaitMs: 6000 });
    expect(config.process).toMatchObject({ host: "127.0.0.1", port: 3333, dataDir: ".cordum", natsUrl: null });
    for (const part of [config, config.values, config.settings.retry.lock_busy.policy, config.settings.bus]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });

  test("empty sources yield the defaults", () => {
    expect(good({ file: file(""), env: {}, flags: [] }).settings).toEqual(defaultSettings());
    expect(good({}).settings).toEqual(defaultSettings());
  });

  test("accepts `never` only for settings that can be disabled", () => {
    expect(good({ file: file("bus: {park_after_ms: never}") }).settings.bus.parkAfterMs).toBeNull();
    expect(problemsOf({ file: file("bus: {ack_wait_ms: never}") })).toHaveLength(1);
  });
});

describe("baseline profile", () => {
  test("changes the defaults that differ", () => {
    const baseline = baselineSettings();
    expect(baseline.bus).toMatchObject({ ackWaitMs: 600_000, parkAfterMs: null, deliverMax: 100 });
    expect(baseline.retry.lock_busy.policy).toEqual({ kind: "fixed", delayMs: 500 });
    expect(baseline.retry.safety_unavailable.policy).toEqual({ kind: "fixed", delayMs: 5_000 });
    expect(baseline.sweep).toEqual(defaultSettings().sweep);
  });

  test("polls for admission, does not coalesce results and does not wait for the run lock", () => {
    const { admission, runLock } = defaultSettings();
    expect(admission).toMatchObject({ strategy: "atomic", polled: { maxWaitMs: 2_000, ttlMs: 10_000 } });
    expect(admission.polled.policy).toEqual({ kind: "bounded", baseMs: 10, pct: 0.5 });
    expect(runLock).toEqual({
      engineWaitMs: 500,
      gatewayWaitMs: 3_000,
      gatewayPoll: null,
      ttlMs: 30_000,
      coalesce: true,
    });
    const baseline = baselineSettings();
    const polled = { ...admission.polled, policy: { kind: "fixed", delayMs: 10 } };
    expect(baseline.admission).toEqual({ strategy: "polled", polled });
    expect(baseline.runLock).toEqual({ ...runLock, engineWaitMs: 0, gatewayPoll: polled.policy, coalesce: false });
  });

  test("accepts YAML booleans", () => {
    expect(good({ file: file("run_lock: {coalesce: false}") }).settings.runLock.coalesce).toBe(false);
    expect(good({ env: { CORDUM_RUN_LOCK_COALESCE: "true" } }).settings.runLock.coalesce).toBe(true);
    expect(problemsOf({ file: file("run_lock: {coalesce: maybe}") })).toHaveLength(1);
  });

  test("single settings override the profile, and origins distinguish them", () => {
    const config = good({ file: file("profile: baseline\nretry: {lock_busy: {policy: 'bounded:500ms:0.3'}}") });
    expect(config.settings.retry.lock_busy).toEqual(defaultSettings().retry.lock_busy);
    expect(config.settings.bus).toEqual(baselineSettings().bus);
    expect(config.origins["bus.ack_wait_ms"].kind).toBe("baseline");
    expect(config.origins["retry.lock_busy.policy"].kind).toBe("file");
    expect(settingsFrom({ "bus.park_after_ms": 7 }).bus.parkAfterMs).toBe(7);
  });
});

describe("deprecated profile name", () => {
  const warningsOf = (sources: Sources) => {
    const configured = configure(sources);
    if (configured.kind === "bad") throw new Error(configured.problems.join("\n"));
    expect(configured.config.values.profile).toBe("baseline");
    expect(configured.config.process.profile).toBe("baseline");
    expect(configured.config.settings).toEqual(baselineSettings());
    return configured.warnings;
  };

  test("reads `founding` as `baseline` from every source, with a warning", () => {
    const warning = "`profile: founding` is deprecated; use `profile: baseline`";
    expect(warningsOf({ file: file("profile: founding") })).toEqual([`cordum.yaml:1: ${warning}`]);
    expect(warningsOf({ env: { CORDUM_PROFILE: "founding" } })).toEqual([`CORDUM_PROFILE: ${warning}`]);
    const flags = [{ name: "profile", value: "founding", flag: "--profile" }] as const;
    expect(warningsOf({ flags })).toEqual([`--profile: ${warning}`]);
  });

  test("`baseline` has no warning", () => {
    expect(warningsOf({ file: file("profile: baseline") })).toEqual([]);
    expect(warningsOf({ env: { CORDUM_PROFILE: "baseline" } })).toEqual([]);
  });

  test("a misspelt profile is rejected with the current names", () => {
    expect(problemsOf({ file: file("profile: foundin") })).toEqual([
      "cordum.yaml:1: `profile`: `foundin` is not one of `default`, `baseline`",
    ]);
  });
});

describe("problems", () => {
  test("reports an unknown name with its line and the nearest valid name", () => {
    expect(problemsOf({ file: file("\nbus:\n  park_after: 3\n") })).toEqual([
      "cordum.yaml:3: unknown setting `bus.park_after`; did you mean `bus.park_after_ms`?",
    ]);
    expect(problemsOf({ env: { CORDUM_BUS_PARKAFTER_MS: "1" } })).toEqual([
      "unknown environment variable `CORDUM_BUS_PARKAFTER_MS`; did you mean `CORDUM_BUS_PARK_AFTER_MS`?",
    ]);
  });

  test("reports all problems at once", () => {
    const text = "http: {port: 70000}\nretry: {lock_busy: {policy: 'bounded:500'}}\nlog: {level: loud}\nnope: 1\n";
    expect(problemsOf({ file: file(text) })).toHaveLength(4);
  });

  test.each([
    ["a value that is not a number", "bus: {ack_wait_ms: soon}"],
    ["a fraction", "bus: {ack_wait_ms: 1500.5}"],
    ["a list", "bus: {ack_wait_ms: [1]}"],
    ["a setting set twice in two notations", "bus: {ack_wait_ms: 5000}\nbus.ack_wait_ms: 5000"],
    ["an alias", "http: {port: &p 80}\nname: *p"],
    ["invalid YAML", "http: {port"],
    ["a poison policy that requires retry state", "retry: {poison: {policy: 'full:1s:30s'}}"],
    ["a sweep horizon below the sweep interval", "sweep: {every_ms: 3000}"],
    ["a sweep lease below the sweep horizon", "sweep: {horizon_ms: 20000}"],
    ["an idempotency key that outlives its run", "retention: {runs_ms: 3600000}"],
    ["half a cluster", "nats: {url: 'nats://127.0.0.1:4222'}"],
  ])("rejects %s", (_, text) => {
    expect(problemsOf({ file: file(text) })).toHaveLength(1);
  });

  test("rejects a misspelt fail mode under either name (L32)", () => {
    for (const mode of ["Open", "Closed", "clsoed", "opne", ""]) {
      expect(problemsOf({ env: { POLICY_CHECK_FAIL_MODE: mode } })[0]).toContain("neither `closed` nor `open`");
      expect(problemsOf({ env: { CORDUM_SAFETY_FAIL_MODE: mode } })[0]).toContain("neither `closed` nor `open`");
    }
    expect(good({ env: { POLICY_CHECK_FAIL_MODE: "closed" } }).values["safety.fail_mode"]).toBe("closed");
  });

  test("ignores client variables and Kubernetes service variables", () => {
    const env = {
      CORDUM_URL: "http://127.0.0.1:1",
      CORDUM_TENANT: "acme",
      CORDUM_API_KEY: "k",
      CORDUM_SERVICE_HOST: "10.0.0.1",
      CORDUM_SERVICE_PORT_HTTP: "80",
      CORDUM_PORT: "tcp://10.0.0.1:80",
      CORDUM_PORT_80_TCP_ADDR: "10.0.0.1",
    };
    expect(problemsOf({ env })).toEqual([]);
  });
});

describe("reload", () => {
  test("applies live settings and reports those that require a restart", () => {
    const live = new LiveConfig(good({}));
    const before = live.current;
    const text = "retry: {lock_busy: {policy: 'fixed:500ms', budget: 5m}}\nbus: {park_after_ms: 100}\n";
    expect(live.reload(good({ file: file(text) }))).toEqual({
      applied: ["retry.lock_busy.policy", "retry.lock_busy.budget"],
      needRestart: ["bus.park_after_ms"],
    });
    expect(live.current.retry.lock_busy.policy).toEqual({ kind: "fixed", delayMs: 500 });
    expect(live.current.bus.parkAfterMs).toBe(2_000);
    expect(live.config.origins["retry.lock_busy.policy"].kind).toBe("file");
    expect(before.retry.lock_busy.policy.kind).toBe("bounded");
  });

  test("reverts a change", () => {
    const live = new LiveConfig(good({}));
    live.reload(good({ file: file("retry: {lock_busy: {policy: 'fixed:500ms'}}") }));
    expect(live.reload(good({})).applied).toEqual(["retry.lock_busy.policy"]);
    expect(live.current).toEqual(defaultSettings());
  });
});

describe("secrets", () => {
  const SECRET = "s3cr3t-0123456789-abcdef";

  test("are read from the file and the environment, and are not part of the engine settings", () => {
    const config = good({ file: file(`safety: {token: ${SECRET}}`) });
    expect(config.process.safetyTrust).toEqual({ token: SECRET, cert: null, key: null, ca: null });
    expect(good({ env: { CORDUM_SAFETY_TOKEN: `${SECRET}\n` } }).process.safetyTrust.token).toBe(SECRET);
    expect(JSON.stringify(config.settings)).not.toContain(SECRET);
  });

  test.each([
    ["too short", "s3cr3t"],
    ["made of other characters", "s3cr3t-0123456789 ü"],
    ["a number", 123_456_789_012_345],
    ["a list", ["s3cr3t-0123456789-abcdef"]],
    ["empty", ""],
    ["too long", "s3cr3t".repeat(100)],
  ])("a secret that is %s is rejected without printing it", (_, written) => {
    const [problem = "", ...more] = problemsOf({ file: file(`safety: {token: ${JSON.stringify(written)}}`) });
    expect(more).toEqual([]);
    expect(problem).toContain("cordum.yaml:1: `safety.token`: ");
    expect(problem).not.toMatch(/s3cr3t|1234567/);
  });

  test("a certificate and its key require each other", () => {
    expect(problemsOf({ file: file("safety: {tls: {cert: a.pem}}") })).toHaveLength(1);
    expect(problemsOf({ env: { CORDUM_SAFETY_TLS_KEY: "k.pem" } })).toHaveLength(1);
    expect(problemsOf({ file: file("safety: {tls: {cert: a.pem, key: k.pem}}") })).toEqual([]);
  });
});
