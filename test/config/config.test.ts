import { describe, expect, test } from "vitest";
import { defaultSettings, foundingSettings, LiveConfig, settingsFrom } from "../../src/config/config.ts";
import { parseValue } from "../../src/config/parse.ts";
import { environmentName, SETTING_NAMES, SETTINGS } from "../../src/config/table.ts";
import { good, problemsOf } from "./configured.ts";

const file = (text: string) => ({ name: "cordum.yaml", text });

describe("the table", () => {
  test("every default and every founding value is one that its own setting accepts", () => {
    for (const setting of SETTINGS) {
      expect(parseValue(setting, setting.default), setting.name).toBe(setting.default);
      if (setting.founding !== undefined) expect(parseValue(setting, setting.founding)).toBe(setting.founding);
    }
  });

  test("no two settings share a name or an environment variable", () => {
    expect(new Set(SETTING_NAMES).size).toBe(SETTING_NAMES.length);
    expect(new Set(SETTING_NAMES.map(environmentName)).size).toBe(SETTING_NAMES.length);
    expect(environmentName("bus.park_after_ms")).toBe("CORDUM_BUS_PARK_AFTER_MS");
  });

  test("every setting says in one sentence what it does, and units stand in the name of a time", () => {
    for (const setting of SETTINGS) {
      expect(setting.help, setting.name).toMatch(/^.+\.$/);
      if (setting.type.kind === "whole" && setting.type.unit === "ms") expect(setting.name).toMatch(/_ms$/);
    }
  });
});

describe("where a value comes from", () => {
  const text = "bus:\n  park_after_ms: 100\n  ack_wait_ms: 5000\nhttp: {port: 1111}\n";
  const env = { CORDUM_BUS_ACK_WAIT_MS: "6000", CORDUM_HTTP_PORT: "2222" };
  const flags = [{ name: "http.port", value: "3333", flag: "--port" }] as const;

  test("a flag is stronger than the environment, that than the file, that than the default", () => {
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

  test("what is read is what the flow gets, frozen to the bottom", () => {
    const config = good({ file: file(text), env, flags });
    expect(config.settings.bus).toMatchObject({ parkAfterMs: 100, ackWaitMs: 6000 });
    expect(config.process).toMatchObject({ host: "127.0.0.1", port: 3333, dataDir: ".cordum", natsUrl: null });
    for (const part of [config, config.values, config.settings.retry.lock_busy.policy, config.settings.bus]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });

  test("an empty file, an empty environment and no flags are the defaults", () => {
    expect(good({ file: file(""), env: {}, flags: [] }).settings).toEqual(defaultSettings());
    expect(good({}).settings).toEqual(defaultSettings());
  });

  test("`never` switches parking off, and is the only word that a number may be", () => {
    expect(good({ file: file("bus: {park_after_ms: never}") }).settings.bus.parkAfterMs).toBeNull();
    expect(problemsOf({ file: file("bus: {ack_wait_ms: never}") })).toHaveLength(1);
  });
});

describe("the founding profile", () => {
  test("switches every default that differs, and nothing else", () => {
    const founding = foundingSettings();
    expect(founding.bus).toMatchObject({ ackWaitMs: 600_000, parkAfterMs: null, deliverMax: 100 });
    expect(founding.retry.lock_busy.policy).toEqual({ kind: "fixed", delayMs: 500 });
    expect(founding.retry.safety_unavailable.policy).toEqual({ kind: "fixed", delayMs: 5_000 });
    expect(founding.sweep).toEqual(defaultSettings().sweep);
  });

  test("polls for admission, takes each result by itself and does not wait for a run's lock", () => {
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
    const founding = foundingSettings();
    const polled = { ...admission.polled, policy: { kind: "fixed", delayMs: 10 } };
    expect(founding.admission).toEqual({ strategy: "polled", polled });
    expect(founding.runLock).toEqual({ ...runLock, engineWaitMs: 0, gatewayPoll: polled.policy, coalesce: false });
  });

  test("a switch is written as YAML writes it", () => {
    expect(good({ file: file("run_lock: {coalesce: false}") }).settings.runLock.coalesce).toBe(false);
    expect(good({ env: { CORDUM_RUN_LOCK_COALESCE: "true" } }).settings.runLock.coalesce).toBe(true);
    expect(problemsOf({ file: file("run_lock: {coalesce: maybe}") })).toHaveLength(1);
  });

  test("single settings can still be chosen, and the origin tells which is which", () => {
    const config = good({ file: file("profile: founding\nretry: {lock_busy: {policy: 'bounded:500ms:0.3'}}") });
    expect(config.settings.retry.lock_busy).toEqual(defaultSettings().retry.lock_busy);
    expect(config.settings.bus).toEqual(foundingSettings().bus);
    expect(config.origins["bus.ack_wait_ms"].kind).toBe("founding");
    expect(config.origins["retry.lock_busy.policy"].kind).toBe("file");
    expect(settingsFrom({ "bus.park_after_ms": 7 }).bus.parkAfterMs).toBe(7);
  });
});

describe("what is wrong is said", () => {
  test("an unknown key, with its line and the nearest right name", () => {
    expect(problemsOf({ file: file("\nbus:\n  park_after: 3\n") })).toEqual([
      "cordum.yaml:3: unknown setting `bus.park_after`; did you mean `bus.park_after_ms`?",
    ]);
    expect(problemsOf({ env: { CORDUM_BUS_PARKAFTER_MS: "1" } })).toEqual([
      "unknown environment variable `CORDUM_BUS_PARKAFTER_MS`; did you mean `CORDUM_BUS_PARK_AFTER_MS`?",
    ]);
  });

  test("every problem at once", () => {
    const text = "http: {port: 70000}\nretry: {lock_busy: {policy: 'bounded:500'}}\nlog: {level: loud}\nnope: 1\n";
    expect(problemsOf({ file: file(text) })).toHaveLength(4);
  });

  test.each([
    ["a value that is no number", "bus: {ack_wait_ms: soon}"],
    ["a fraction", "bus: {ack_wait_ms: 1500.5}"],
    ["a list", "bus: {ack_wait_ms: [1]}"],
    ["a key set twice in two spellings", "bus: {ack_wait_ms: 5000}\nbus.ack_wait_ms: 5000"],
    ["an alias", "http: {port: &p 80}\nname: *p"],
    ["text that is no YAML", "http: {port"],
    ["a poison policy that would need a record", "retry: {poison: {policy: 'full:1s:30s'}}"],
    ["a sweep that looks less far than it waits", "sweep: {every_ms: 3000}"],
    ["a lease that ends before its item's time", "sweep: {horizon_ms: 20000}"],
    ["a key that outlives the run it stands for", "retention: {runs_ms: 3600000}"],
    ["half a cluster", "nats: {url: 'nats://127.0.0.1:4222'}"],
  ])("%s", (_, text) => {
    expect(problemsOf({ file: file(text) })).toHaveLength(1);
  });

  test("a misspelt fail mode refuses to start, under either name: it must not mean open (L32)", () => {
    for (const mode of ["Open", "Closed", "clsoed", "opne", ""]) {
      expect(problemsOf({ env: { POLICY_CHECK_FAIL_MODE: mode } })[0]).toContain("neither `closed` nor `open`");
      expect(problemsOf({ env: { CORDUM_SAFETY_FAIL_MODE: mode } })[0]).toContain("neither `closed` nor `open`");
    }
    expect(good({ env: { POLICY_CHECK_FAIL_MODE: "closed" } }).values["safety.fail_mode"]).toBe("closed");
  });

  test("the client's own variables and those that Kubernetes makes for a service are left alone", () => {
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

describe("a config that changes while running", () => {
  test("retry settings are taken over, others wait for a restart and say so", () => {
    const live = new LiveConfig(good({}));
    const before = live.current;
    const text = "retry: {lock_busy: {policy: 'fixed:500ms', budget: 5m}}\nbus: {park_after_ms: 100}\n";
    expect(live.reload(good({ file: file(text) }))).toEqual({
      taken: ["retry.lock_busy.policy", "retry.lock_busy.budget"],
      needRestart: ["bus.park_after_ms"],
    });
    expect(live.current.retry.lock_busy.policy).toEqual({ kind: "fixed", delayMs: 500 });
    expect(live.current.bus.parkAfterMs).toBe(2_000);
    expect(live.config.origins["retry.lock_busy.policy"].kind).toBe("file");
    expect(before.retry.lock_busy.policy.kind).toBe("bounded");
  });

  test("taking a change back takes it back", () => {
    const live = new LiveConfig(good({}));
    live.reload(good({ file: file("retry: {lock_busy: {policy: 'fixed:500ms'}}") }));
    expect(live.reload(good({})).taken).toEqual(["retry.lock_busy.policy"]);
    expect(live.current).toEqual(defaultSettings());
  });
});

describe("a secret", () => {
  const SECRET = "s3cr3t-0123456789-abcdef";

  test("is read from the file and the environment, and reaches the process around the flow alone", () => {
    const config = good({ file: file(`safety: {token: ${SECRET}}`) });
    expect(config.process.safetyTrust).toEqual({ token: SECRET, cert: null, key: null, ca: null });
    expect(good({ env: { CORDUM_SAFETY_TOKEN: `${SECRET}\n` } }).process.safetyTrust.token).toBe(SECRET);
    expect(JSON.stringify(config.settings)).not.toContain(SECRET);
  });

  test.each([
    ["too short", "s3cr3t"],
    ["of other letters", "s3cr3t-0123456789 ü"],
    ["a number", 123_456_789_012_345],
    ["a list", ["s3cr3t-0123456789-abcdef"]],
    ["empty", ""],
    ["too long", "s3cr3t".repeat(100)],
  ])("that is %s is refused, and not repeated", (_, written) => {
    const [problem = "", ...more] = problemsOf({ file: file(`safety: {token: ${JSON.stringify(written)}}`) });
    expect(more).toEqual([]);
    expect(problem).toContain("cordum.yaml:1: `safety.token`: ");
    expect(problem).not.toMatch(/s3cr3t|1234567/);
  });

  test("a certificate and its key go together", () => {
    expect(problemsOf({ file: file("safety: {tls: {cert: a.pem}}") })).toHaveLength(1);
    expect(problemsOf({ env: { CORDUM_SAFETY_TLS_KEY: "k.pem" } })).toHaveLength(1);
    expect(problemsOf({ file: file("safety: {tls: {cert: a.pem, key: k.pem}}") })).toEqual([]);
  });
});
