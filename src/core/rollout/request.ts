import { quote } from "../retry/duration.ts";
import type { Settings } from "../settings.ts";
import { defaultGates, formatGate, type Gate, parseGate } from "./gate.ts";
import type { Rollout, RolloutPrediction } from "./rollout.ts";
import {
  normalizeTreatment,
  parseSubject,
  type RolloutSubject,
  settingOf,
  unitKindOf,
  valueInForce,
} from "./subject.ts";

/** What an operator asks for. */
export interface RolloutRequest {
  /** A retry class or a setting. */
  readonly subject: string;
  /** A policy or value in config syntax. */
  readonly treatment: string;
  /**
   * Treatment shares of the stages, increasing. A last share of 1 is left out: the treatment of all units is a promotion, which
   * is a person's action.
   */
  readonly shares: readonly number[];
  readonly orgs?: readonly string[] | undefined;
  readonly forMs?: number | undefined;
  readonly horizonMs?: number | undefined;
  readonly gates?: readonly string[] | undefined;
  readonly switchMs?: number | null | undefined;
  readonly reason?: string | undefined;
  readonly prediction?: RolloutPrediction | null | undefined;
  readonly by: string;
}

/** `field`: the part of the request that is wrong. */
export type CheckedRollout =
  | { readonly kind: "ok"; readonly rollout: Omit<Rollout, "id" | "salt"> }
  | { readonly kind: "bad"; readonly field: keyof RolloutRequest; readonly why: string };

export const ROLLOUT_DEFAULTS = { forMs: 7 * 24 * 3_600_000, horizonMs: 600_000 } as const;
export const ROLLOUT_LIMITS = {
  horizonMs: { min: 1_000, max: 24 * 3_600_000 },
  forMs: { min: 1_000, max: 90 * 24 * 3_600_000 },
  switchMs: { min: 1_000, max: 24 * 3_600_000 },
  shares: 8,
  gates: 8,
  orgs: 100,
  reasonLength: 500,
  nameLength: 200,
} as const;

/** A rollout that has not started, or what is wrong with the request. `settings`: those in force. */
export function checkRollout(
  request: RolloutRequest,
  settings: Settings,
  alpha: number,
  nowMs: number,
): CheckedRollout {
  try {
    return { kind: "ok", rollout: rolloutOf(request, settings, alpha, nowMs) };
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    return { kind: "bad", field: error.field, why: error.message };
  }
}

class FieldError extends Error {
  readonly field: keyof RolloutRequest;

  constructor(field: keyof RolloutRequest, message: string) {
    super(message);
    this.field = field;
  }
}

/** Half of the window is measured, or more. */
const WINDOW_WAITS_MIN = 4;

function rolloutOf(
  request: RolloutRequest,
  settings: Settings,
  alpha: number,
  nowMs: number,
): Omit<Rollout, "id" | "salt"> {
  const { by, prediction = null } = request;
  const subject = field("subject", () => subjectIn(request.subject));
  const treatment = field("treatment", () => normalizeTreatment(subject, request.treatment));
  const control = valueInForce(settings, subject);
  if (treatment === control) {
    const why = `\`${settingOf(subject)}\` is ${quote(control)} already; choose another value`;
    throw new FieldError("treatment", why);
  }
  const forMs = within("forMs", request.forMs ?? ROLLOUT_DEFAULTS.forMs);
  const switchMs = request.switchMs ?? null;
  if (switchMs !== null) within("switchMs", switchMs);
  const horizonMs = within("horizonMs", request.horizonMs ?? ROLLOUT_DEFAULTS.horizonMs);
  if (unitKindOf(subject) === "org") checkWindow(horizonMs, switchMs, settings.admission.polled.maxWaitMs);
  const reason = request.reason?.trim() ?? "";
  if (reason.length > ROLLOUT_LIMITS.reasonLength) {
    throw new FieldError(
      "reason",
      `the reason has ${reason.length} characters; the limit is ${ROLLOUT_LIMITS.reasonLength}`,
    );
  }
  return {
    ...{ subject, treatment, control, switchMs, alpha, prediction, by, reason },
    shares: sharesIn(request.shares),
    stage: 0,
    orgs: orgsIn(request.orgs ?? []),
    gates: gatesIn(request.gates ?? [], subject),
    horizonMs,
    endsMs: nowMs + forMs,
    state: "running",
    startedBy: by,
    ...{ startedMs: nowMs, stagedMs: nowMs, updatedMs: nowMs },
  };
}

/** A window of a tenant has one arm, and most of it is measured (`tenant-window.ts`). */
function checkWindow(horizonMs: number, switchMs: number | null, maxWaitMs: number): void {
  if (horizonMs < WINDOW_WAITS_MIN * maxWaitMs) {
    const why = `\`admission.polled.max_wait_ms\` is ${maxWaitMs}; the horizon must be ${WINDOW_WAITS_MIN} times as long`;
    throw new FieldError("horizonMs", why);
  }
  if (switchMs !== null && switchMs % horizonMs !== 0) {
    throw new FieldError("switchMs", `${switchMs} ms is not a multiple of the horizon, ${horizonMs} ms`);
  }
}

function subjectIn(text: string): RolloutSubject {
  const subject = parseSubject(text);
  if (subject !== "poison") return subject;
  throw new Error("undecodable messages belong to no run or job, so a rollout of `poison` cannot be measured");
}

function field<T>(name: keyof RolloutRequest, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new FieldError(name, (error as Error).message);
  }
}

function within(name: "horizonMs" | "forMs" | "switchMs", valueMs: number): number {
  const { min, max } = ROLLOUT_LIMITS[name];
  if (Number.isInteger(valueMs) && valueMs >= min && valueMs <= max) return valueMs;
  throw new FieldError(name, `${valueMs} is not a whole number of milliseconds from ${min} to ${max}`);
}

function sharesIn(asked: readonly number[]): readonly number[] {
  const shares = asked.length > 1 && asked.at(-1) === 1 ? asked.slice(0, -1) : asked;
  if (shares.length === 0 || shares.length > ROLLOUT_LIMITS.shares) {
    throw new FieldError("shares", `give from 1 to ${ROLLOUT_LIMITS.shares} shares, such as 10% or 10%,30%`);
  }
  for (const [at, share] of shares.entries()) {
    if (!(share > 0 && share < 1)) {
      const why = `a share of ${share * 100} % leaves no ${share >= 1 ? "control" : "treatment"} arm to compare with`;
      throw new FieldError("shares", `${why}; choose a share between 0 % and 100 %`);
    }
    if (at > 0 && share <= (shares[at - 1] ?? 0))
      throw new FieldError("shares", "each share must exceed the one before");
  }
  return shares;
}

function orgsIn(orgs: readonly string[]): readonly string[] {
  if (orgs.length > ROLLOUT_LIMITS.orgs) {
    throw new FieldError("orgs", `${orgs.length} tenants; the limit is ${ROLLOUT_LIMITS.orgs}`);
  }
  const bad = orgs.find((org) => org.trim() === "" || org.length > ROLLOUT_LIMITS.nameLength);
  if (bad !== undefined) throw new FieldError("orgs", `${quote(bad)} is not the name of a tenant`);
  return [...new Set(orgs)];
}

function gatesIn(texts: readonly string[], subject: RolloutSubject): readonly Gate[] {
  if (texts.length === 0) return defaultGates(subject);
  if (texts.length > ROLLOUT_LIMITS.gates) {
    throw new FieldError("gates", `${texts.length} gates; the limit is ${ROLLOUT_LIMITS.gates}`);
  }
  const gates = texts.map((text) => field("gates", () => parseGate(text)));
  for (const [at, { metric }] of gates.entries()) {
    const isAdmission = metric === "admission_wait_p95";
    if (metric !== "results" && metric !== "dead_letters" && isAdmission !== (unitKindOf(subject) === "org")) {
      const why = isAdmission ? "is measured for `admission.polled.policy` only" : "is not measured at admission";
      throw new FieldError("gates", `gate \`${texts[at]}\`: \`${metric}\` ${why}`);
    }
    if (gates.findIndex((other) => other.metric === metric) < at) {
      throw new FieldError("gates", `two gates of \`${metric}\`: \`${formatGate(gates[at] as Gate)}\` repeats it`);
    }
  }
  return gates;
}
