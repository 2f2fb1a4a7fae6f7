/** The form that starts a rollout: texts as they are typed, and the request that they make. */
import type { StartRolloutRequest } from "../../../../src/client/schema.ts";

export interface StartForm {
  readonly class: string;
  readonly policy: string;
  /** `10%, 30%` */
  readonly share: string;
  readonly orgs: string;
  /** Durations: `10m`. */
  readonly for_ms: string;
  readonly horizon_ms: string;
  readonly switch_ms: string;
  /** One per line. */
  readonly gates: string;
  readonly reason: string;
}

export type StartField = keyof StartForm;

export const EMPTY_FORM: StartForm = {
  ...{ class: "lock_busy", policy: "", share: "10%", orgs: "" },
  ...{ for_ms: "", horizon_ms: "", switch_ms: "", gates: "", reason: "" },
};

export type FieldErrors = Partial<Readonly<Record<StartField, string>>>;

export type ReadForm =
  | { readonly kind: "ok"; readonly request: StartRolloutRequest }
  | { readonly kind: "bad"; readonly errors: FieldErrors };

/** Only the form of the texts is checked; the control plane checks what they mean. */
export function readForm(form: StartForm): ReadForm {
  const errors: Partial<Record<StartField, string>> = {};
  const optional = <T>(field: StartField, read: (text: string) => T | null, otherwise: string): T | undefined => {
    const text = form[field].trim();
    if (text === "") return undefined;
    const value = read(text);
    if (value === null) errors[field] = otherwise;
    return value ?? undefined;
  };
  if (form.policy.trim() === "") errors.policy = "give the value to try, such as bounded:500ms:0.3";
  const shares = optional("share", readShares, "give percentages, such as 10% or 10%, 30%");
  if (shares === undefined) errors.share ??= "give the share of the treatment, such as 10%";
  const durationHint = "give a number and ms, s, m, h or d, such as 30m";
  const request: StartRolloutRequest = {
    class: form.class,
    policy: form.policy.trim(),
    share: shares?.length === 1 ? (shares[0] ?? 0) : (shares ?? []),
    orgs: optional("orgs", (text) => listOf(text, /[\s,]+/), ""),
    for_ms: optional("for_ms", readDuration, durationHint),
    horizon_ms: optional("horizon_ms", readDuration, durationHint),
    switch_ms: optional("switch_ms", readDuration, durationHint),
    gates: optional("gates", (text) => listOf(text, /[\n,]+/), ""),
    reason: optional("reason", (text) => text, ""),
  };
  return Object.keys(errors).length > 0 ? { kind: "bad", errors } : { kind: "ok", request };
}

/** The field that the control plane named, with what it said about it. */
export function fieldError(problem: Readonly<Record<string, unknown>>, detail: string): FieldErrors {
  const { field } = problem;
  if (typeof field !== "string" || !(field in EMPTY_FORM)) return {};
  return { [field]: detail.replace(`\`${field}\`: `, "") };
}

/** Arguments of `cordum rollout start`. */
export function startArguments(request: StartRolloutRequest): readonly [string, ...string[]] {
  const { share, orgs, for_ms, horizon_ms, switch_ms, gates = [] } = request;
  const shares = typeof share === "number" ? [share] : share;
  const option = (name: string, value: string | undefined) => (value === undefined ? [] : [name, value]);
  const duration = (ms: number | undefined) => (ms === undefined ? undefined : `${ms}ms`);
  return [
    "rollout start",
    request.class,
    ...["--policy", request.policy],
    ...["--share", shares.map((one) => `${Number((one * 100).toFixed(3))}%`).join(",")],
    ...option("--orgs", orgs?.join(",")),
    ...option("--for", duration(for_ms)),
    ...option("--horizon", duration(horizon_ms)),
    ...option("--switch", duration(switch_ms)),
    ...gates.flatMap((gate) => ["--gate", gate]),
  ];
}

export function readDuration(text: string): number | null {
  const [, digits, unit = ""] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)$/.exec(text) ?? [];
  const unitMs = UNITS_MS[unit];
  return unitMs === undefined ? null : Math.round(Number(digits) * unitMs);
}

function readShares(text: string): number[] | null {
  const shares = listOf(text, /[\s,]+/).map((part) =>
    /^\d{1,3}(\.\d{1,3})?%$/.test(part) ? Number(part.slice(0, -1)) / 100 : Number.NaN,
  );
  return shares.some(Number.isNaN) ? null : shares;
}

const listOf = (text: string, separator: RegExp): string[] =>
  text
    .split(separator)
    .map((part) => part.trim())
    .filter((part) => part !== "");

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Of `src/core/rollout/subject.ts`, but `poison`, whose messages belong to no unit. */
export const SUBJECTS = [
  "lock_busy",
  "safety_unavailable",
  "store_unavailable",
  "no_worker",
  "throttled",
  "unclassified",
  "run_lock.coalesce",
  "run_lock.engine_wait_ms",
  "admission.polled.policy",
] as const;
