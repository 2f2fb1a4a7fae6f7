import { CONSTRAINTS_ENV } from "../../protocol/constraints.ts";
import { isTopic } from "../../protocol/subjects.ts";
import { type JobDetails, POINTER_LENGTH_MAX } from "../model/job-details.ts";
import { STEP_LABELS } from "../model/lists/labels.ts";

/**
 * Validates the optional fields of a request (`JobDetails`). Empty values, and a principal that is the actor, are left out, so
 * that a job without details has no `details`. Every problem is added to `problems`.
 */
export function checkDetails(raw: unknown, actorId: string | null, problems: string[]): JobDetails | undefined {
  if (raw === undefined || raw === null) return undefined;
  const before = problems.length;
  const fields = (raw as JobDetails).principalId === actorId ? { ...raw, principalId: undefined } : raw;
  const details = checkFields(fields, REQUEST_FIELDS, "", problems);
  if (details === undefined || problems.length > before) return undefined;
  if (JSON.stringify(details).length > DETAILS_LENGTH_MAX) {
    problems.push(
      `the optional request fields exceed ${DETAILS_LENGTH_MAX} characters; pass large values in the input`,
    );
    return undefined;
  }
  return details as JobDetails;
}

/** Returns the value to keep, undefined to leave the field out, or `BAD`. */
type Check = (value: unknown, path: string, problems: string[]) => unknown;

const BAD = Symbol("bad");

/** A check that needs no context: `what` describes an acceptable value. */
const plain =
  (what: string, isEmpty: (value: unknown) => boolean, isGood: (value: unknown) => boolean): Check =>
  (value, path, problems) => {
    if (isEmpty(value)) return undefined;
    if (isGood(value)) return value;
    problems.push(`\`${path}\` must be ${what}`);
    return BAD;
  };

const text = (lengthMax: number) =>
  plain(
    `a string of at most ${lengthMax} characters`,
    (value) => value === "",
    (value) => typeof value === "string" && value.length <= lengthMax,
  );

const count = (max: number) =>
  plain(
    `an integer from 0 to ${max}`,
    (value) => value === 0,
    (value) => Number.isInteger(value) && (value as number) > 0 && (value as number) <= max,
  );

const flag = plain(
  "a boolean",
  (value) => value === false,
  (value) => value === true,
);

const oneOf = (names: readonly string[]) =>
  plain(
    `one of ${names.map((name) => `\`${name}\``).join(", ")}`,
    () => false,
    (value) => names.includes(value as string),
  );

const texts: Check = plain(
  "a list of at most 64 strings of up to 256 characters",
  (value) => Array.isArray(value) && value.length === 0,
  (value) => Array.isArray(value) && value.length <= ENTRIES_MAX && value.every((one) => isText(one, TEXT_LENGTH_MAX)),
);

const isText = (value: unknown, lengthMax: number): boolean => typeof value === "string" && value.length <= lengthMax;

const map = (valueLengthMax: number) =>
  plain(
    `an object of at most ${ENTRIES_MAX} strings of up to ${valueLengthMax} characters`,
    (value) => isObject(value) && Object.keys(value).length === 0,
    (value) => {
      if (!isObject(value)) return false;
      const entries = Object.entries(value);
      return (
        entries.length <= ENTRIES_MAX &&
        entries.every(([name, one]) => isText(name, TEXT_LENGTH_MAX) && isText(one, valueLengthMax))
      );
    },
  );

/** Environment of the worker. Workers trust the names that the control plane sets. */
const env: Check = (value, path, problems) => {
  const checked = map(ENV_LENGTH_MAX)(value, path, problems);
  const ours = isObject(checked) ? RESERVED_ENV.find((name) => Object.hasOwn(checked, name)) : undefined;
  if (ours === undefined) return checked;
  problems.push(`the environment variable \`${ours}\` is reserved for the control plane; remove it`);
  return BAD;
};

const fields =
  (table: Readonly<Record<string, Check>>): Check =>
  (value, path, problems) =>
    checkFields(value, table, `${path}.`, problems) ?? undefined;

/** Unknown fields are left out. */
function checkFields(
  raw: unknown,
  table: Readonly<Record<string, Check>>,
  prefix: string,
  problems: string[],
): Readonly<Record<string, unknown>> | undefined {
  if (!isObject(raw)) {
    problems.push(`\`${prefix.slice(0, -1) || "details"}\` must be an object`);
    return undefined;
  }
  const kept: Record<string, unknown> = {};
  for (const [name, check] of Object.entries(table)) {
    const value = raw[name];
    if (value === undefined || value === null) continue;
    const checked = check(value, prefix + name, problems);
    if (checked !== undefined && checked !== BAD) kept[name] = checked;
  }
  return Object.keys(kept).length === 0 ? undefined : kept;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const TEXT_LENGTH_MAX = 256;
const ENTRIES_MAX = 64;
const ENV_LENGTH_MAX = 4_096;
const DETAILS_LENGTH_MAX = 16_384;
const RESERVED_ENV: readonly string[] = [...STEP_LABELS, CONSTRAINTS_ENV];

const NAME = text(TEXT_LENGTH_MAX);
const HINTS = fields({
  maxInputTokens: count(2 ** 31 - 1),
  allowSummarization: flag,
  allowRetrieval: flag,
  tags: texts,
});
const TOKENS = count(Number.MAX_SAFE_INTEGER);
const BUDGET = fields({
  maxInputTokens: TOKENS,
  maxOutputTokens: TOKENS,
  maxTotalTokens: TOKENS,
  deadlineMs: TOKENS,
});
const META = fields({
  tenantId: NAME,
  actorId: NAME,
  actorType: oneOf(["human", "service"]),
  idempotencyKey: NAME,
  capability: NAME,
  riskTags: texts,
  requires: texts,
  packId: NAME,
  labels: map(TEXT_LENGTH_MAX),
});
const COMPENSATION = fields({
  topic: plain(
    "a topic such as `demo.undo`",
    (value) => value === "",
    (value) => typeof value === "string" && isTopic(value),
  ),
  // Its tenant is checked with that of the submission.
  contextPtr: text(POINTER_LENGTH_MAX),
  priority: oneOf(["interactive", "batch", "critical"]),
  adapterId: NAME,
  env: map(ENV_LENGTH_MAX),
  memoryId: NAME,
  contextHints: HINTS,
  budget: BUDGET,
  tenantId: NAME,
  principalId: NAME,
  labels: map(TEXT_LENGTH_MAX),
  meta: META,
});

const REQUEST_FIELDS: Readonly<Record<keyof JobDetails, Check>> = {
  adapterId: NAME,
  env,
  parentJobId: NAME,
  workflowId: NAME,
  stepIndex: count(2 ** 31 - 1),
  memoryId: NAME,
  contextHints: HINTS,
  budget: BUDGET,
  compensation: COMPENSATION,
  principalId: NAME,
};
