import { suggestion } from "../model/suggestion.ts";
import { quote } from "../retry/duration.ts";
import { formatPolicy, type Policy, parsePolicy } from "../retry/policies.ts";
import { RETRY_CLASSES, type RetryClass } from "../retry/retry-classes.ts";
import type { Settings } from "../settings.ts";

/** What a rollout changes: the policy of a retry class, or one of the settings that decide per run or per tenant. */
export const ROLLOUT_SUBJECTS = [
  ...RETRY_CLASSES,
  "admission.polled.policy",
  "run_lock.engine_wait_ms",
  "run_lock.coalesce",
] as const;

export type RolloutSubject = (typeof ROLLOUT_SUBJECTS)[number];

/**
 * The unit whose arm decides. `run_or_job`: the run for all that happens inside a run, else the job. Sub-runs are units of
 * their own.
 */
export type UnitKind = "run_or_job" | "run" | "org";

export function unitKindOf(subject: RolloutSubject): UnitKind {
  if (subject === "admission.polled.policy") return "org";
  return subject === "run_lock.engine_wait_ms" || subject === "run_lock.coalesce" ? "run" : "run_or_job";
}

export function parseSubject(text: string): RolloutSubject {
  const found = ROLLOUT_SUBJECTS.find((subject) => subject === text);
  if (found !== undefined) return found;
  throw new Error(
    `unknown retry class or setting ${quote(text)}${suggestion(text, ROLLOUT_SUBJECTS)} (rollouts exist for ${ROLLOUT_SUBJECTS.join(", ")})`,
  );
}

/** The name of the setting that a rollout of the subject overrides. */
export const settingOf = (subject: RolloutSubject): string => (isClass(subject) ? `retry.${subject}.policy` : subject);

/** The value in force, in config syntax. */
export function valueInForce(settings: Settings, subject: RolloutSubject): string {
  switch (subject) {
    case "admission.polled.policy":
      return formatPolicy(settings.admission.polled.policy);
    case "run_lock.engine_wait_ms":
      return String(settings.runLock.engineWaitMs);
    case "run_lock.coalesce":
      return String(settings.runLock.coalesce);
    default:
      return formatPolicy(settings.retry[subject].policy);
  }
}

/** Checks a value and returns it in its standard form, so that equal values are equal texts. */
export function normalizeTreatment(subject: RolloutSubject, text: string): string {
  switch (subject) {
    case "run_lock.engine_wait_ms": {
      const ms = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
      if (ms <= ENGINE_WAIT_MS_MAX) return String(ms);
      throw new Error(`${quote(text)} is not a number of milliseconds from 0 to ${ENGINE_WAIT_MS_MAX}`);
    }
    case "run_lock.coalesce":
      if (text === "true" || text === "false") return text;
      throw new Error(`${quote(text)} is neither \`true\` nor \`false\``);
    default:
      return formatPolicy(parsePolicy(text));
  }
}

/** The settings with one value replaced. */
export function withValue(settings: Settings, subject: RolloutSubject, value: string): Settings {
  switch (subject) {
    case "admission.polled.policy": {
      const polled = { ...settings.admission.polled, policy: parsePolicy(value) };
      return { ...settings, admission: { ...settings.admission, polled } };
    }
    case "run_lock.engine_wait_ms":
      return { ...settings, runLock: { ...settings.runLock, engineWaitMs: Number(value) } };
    case "run_lock.coalesce":
      return { ...settings, runLock: { ...settings.runLock, coalesce: value === "true" } };
    default:
      return { ...settings, retry: withPolicy(settings, subject, parsePolicy(value)) };
  }
}

function withPolicy({ retry }: Settings, retryClass: RetryClass, policy: Policy): Settings["retry"] {
  return { ...retry, [retryClass]: { ...retry[retryClass], policy } };
}

const isClass = (subject: RolloutSubject): subject is RetryClass =>
  (RETRY_CLASSES as readonly string[]).includes(subject);

const ENGINE_WAIT_MS_MAX = 60_000;
