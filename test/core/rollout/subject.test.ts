import { describe, expect, it } from "vitest";
import { settingsFrom } from "../../../src/config/config.ts";
import {
  normalizeTreatment,
  parseSubject,
  ROLLOUT_SUBJECTS,
  settingOf,
  unitKindOf,
  valueInForce,
  withValue,
} from "../../../src/core/rollout/subject.ts";

const settings = settingsFrom({});

describe("subjects", () => {
  it.each(ROLLOUT_SUBJECTS)("reads back the value that it sets: %s", (subject) => {
    const values = { "run_lock.engine_wait_ms": "1234", "run_lock.coalesce": "false" } as const;
    const value = subject in values ? values[subject as keyof typeof values] : "fixed:7s";
    const changed = withValue(settings, subject, value);
    expect(valueInForce(changed, subject)).toBe(value);
    expect(valueInForce(settings, subject)).not.toBe(value);
    const others = ROLLOUT_SUBJECTS.filter((other) => other !== subject);
    for (const other of others) expect(valueInForce(changed, other)).toBe(valueInForce(settings, other));
    expect(normalizeTreatment(subject, valueInForce(settings, subject))).toBe(valueInForce(settings, subject));
  });

  it("has the unit that decides", () => {
    expect(unitKindOf("lock_busy")).toBe("run_or_job");
    expect(unitKindOf("run_lock.coalesce")).toBe("run");
    expect(unitKindOf("admission.polled.policy")).toBe("org");
  });

  it("names the overridden setting", () => {
    expect(settingOf("lock_busy")).toBe("retry.lock_busy.policy");
    expect(settingOf("run_lock.engine_wait_ms")).toBe("run_lock.engine_wait_ms");
  });

  it("rejects unknown subjects with a suggestion and the list", () => {
    expect(parseSubject("lock_busy")).toBe("lock_busy");
    expect(() => parseSubject("lock_bussy")).toThrow(/did you mean `lock_busy`.*run_lock\.coalesce/);
    expect(() => parseSubject("__proto__")).toThrow("unknown retry class or setting");
  });
});

describe("treatment values", () => {
  it("are equal texts when they are equal", () => {
    expect(normalizeTreatment("lock_busy", " bounded:500ms:0.30")).toBe(
      normalizeTreatment("lock_busy", "bounded:0.5s:0.3"),
    );
    expect(normalizeTreatment("run_lock.engine_wait_ms", "0500")).toBe("500");
  });

  it.each([
    ["lock_busy", "sometimes", "unknown retry policy"],
    ["run_lock.engine_wait_ms", "500ms", "number of milliseconds from 0 to 60000"],
    ["run_lock.engine_wait_ms", "60001", "number of milliseconds from 0 to 60000"],
    ["run_lock.coalesce", "yes", "neither `true` nor `false`"],
  ] as const)("are rejected: %s %s", (subject, text, why) => {
    expect(() => normalizeTreatment(subject, text)).toThrow(why);
  });
});
