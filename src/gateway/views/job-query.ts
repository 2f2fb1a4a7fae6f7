/** The filters of the job list. */

import { Type } from "typebox";
import { type JobFilter, matchesJob } from "../../core/jobs/job-filter.ts";
import { bareTopic, nfc } from "../../core/model/canonical.ts";
import { JOB_STATES, type Job, type JobState } from "../../core/model/job.ts";
import { INDEXED_LABELS_MAX, RESERVED_LABELS } from "../../core/model/lists/labels.ts";
import { suggestion } from "../../core/model/suggestion.ts";
import { parseDuration } from "../../core/retry/duration.ts";
import { RETRY_CLASSES, type RetryClass } from "../../core/retry/retry-classes.ts";
import type { ScoreRange } from "../../ports/store.ts";
import { Problem } from "../problem.ts";
import type { GatewayRequest } from "../route.ts";
import { COUNT, type Filter, pageQuery, queryText } from "./page.ts";

const TIMES = "an ISO 8601 time such as `2030-01-31T12:00:00Z`, or a Unix time in s, ms or µs";
const AGES = "a duration such as `90s`, `15m`, `24h` or `7d`";
const text = (maxLength: number, description: string) => Type.Optional(Type.String({ maxLength, description }));

export const SINCE = text(40, `Only of this time or later: ${AGES}, ${TIMES}.`);

/** Each combination is answered by an index. */
export const JOB_FILTERS = {
  state: text(40, "Only jobs in this state."),
  topic: text(140, "Only jobs of this topic."),
  label: text(
    600,
    `Only jobs with this label, as \`key=value\`. A job is found by its first ${INDEXED_LABELS_MAX} labels in alphabetical order.`,
  ),
  since: SINCE,
  retrying: Type.Optional(Type.Boolean({ description: "Only jobs that wait for a retry." })),
  class: text(40, "Only jobs that wait for a retry of this class, such as `lock_busy`."),
};

export const JOB_QUERY = pageQuery({
  ...JOB_FILTERS,
  ...COUNT,
  trace_id: text(300, "Only jobs with this trace id."),
  updated_after: text(40, `Only jobs updated after this time: ${TIMES}.`),
  updated_before: text(40, `Only jobs updated before this time: ${TIMES}.`),
  tenant: Type.Optional(Type.String({ description: "The tenant, in place of the header `X-Tenant-ID`." })),
});

export interface JobQuery {
  readonly filter: JobFilter;
  readonly range: ScoreRange;
  readonly traceId: string | undefined;
  /** What no index answers: times of the last update, and all filters of a trace. */
  readonly rest: Filter<Job> | null;
}

export function readJobQuery(query: GatewayRequest["query"], nowMs: number): JobQuery {
  const topic = queryText(query, "topic");
  const filter: JobFilter = {
    state: readState(queryText(query, "state")),
    topic: topic === undefined ? undefined : bareTopic(topic),
    label: readLabel(queryText(query, "label")),
    isRetrying: queryText(query, "retrying") === "true",
    retryClass: readClass(queryText(query, "class")),
  };
  const traceId = queryText(query, "trace_id");
  const updated = { afterMs: readTime(query, "updated_after"), beforeMs: readTime(query, "updated_before") };
  return {
    filter,
    range: { scoreMin: readSince(query, nowMs) },
    traceId,
    rest: restOf(traceId === undefined ? {} : filter, updated),
  };
}

function restOf(
  filter: JobFilter,
  { afterMs, beforeMs }: { readonly afterMs: number | undefined; readonly beforeMs: number | undefined },
): Filter<Job> | null {
  const { state, topic, label, isRetrying, retryClass } = filter;
  const isGiven = [state, topic, label, retryClass, afterMs, beforeMs].some((value) => value !== undefined);
  if (!isGiven && isRetrying !== true) return null;
  return {
    key: JSON.stringify({ state, topic, label, isRetrying, retryClass, afterMs, beforeMs }),
    matches: (job) =>
      matchesJob(filter, job) &&
      (afterMs === undefined || job.updatedMs > afterMs) &&
      (beforeMs === undefined || job.updatedMs < beforeMs),
  };
}

function readState(given: string | undefined): JobState | undefined {
  if (given === undefined) return undefined;
  return oneOf(JOB_STATES, given.toUpperCase(), "state", given);
}

function readClass(given: string | undefined): RetryClass | undefined {
  return given === undefined ? undefined : oneOf(RETRY_CLASSES, given, "retry class", given);
}

function oneOf<T extends string>(known: readonly T[], name: string, what: string, given: string): T {
  const found = known.find((one) => one === name);
  if (found !== undefined) return found;
  const hint = suggestion(name, known) || `; known are ${known.map((one) => `\`${one}\``).join(", ")}`;
  throw new Problem("invalid_request", `unknown ${what} \`${given.slice(0, 40)}\`${hint}`);
}

function readLabel(given: string | undefined): JobFilter["label"] {
  if (given === undefined) return undefined;
  const at = given.indexOf("=");
  if (at < 0) throw new Problem("invalid_request", `\`label\` must be \`key=value\`, not \`${given.slice(0, 60)}\``);
  const key = nfc(given.slice(0, at));
  if (!RESERVED_LABELS.includes(key)) return { key, value: nfc(given.slice(at + 1)) };
  const instead = INSTEAD_OF_LABEL[key] ?? "`GET /api/v1/workflow-runs/ID` lists the jobs of a run";
  throw new Problem("invalid_request", `the label \`${key}\` of the control plane is no filter; ${instead}`);
}

const INSTEAD_OF_LABEL: Readonly<Record<string, string>> = {
  workflow_id: "`GET /api/v1/workflow-runs?workflow_id=ID` lists the runs of a workflow",
  safety_bypassed: "`GET /api/v1/fail-open/bypassed` lists these jobs",
  safety_bypass_reason: "`GET /api/v1/fail-open/bypassed` lists these jobs",
};

/** A time, or an age. */
export function readSince(query: GatewayRequest["query"], nowMs: number): number | undefined {
  const given = queryText(query, "since");
  if (given === undefined) return undefined;
  if (/^\d+(\.\d+)?[a-z]{1,2}$/.test(given)) {
    try {
      return Math.max(0, nowMs - parseDuration(given, { msMin: 0, msMax: AGE_MS_MAX }));
    } catch (error) {
      throw new Problem("invalid_request", `\`since\`: ${(error as Error).message}`);
    }
  }
  const atMs = timeOf(given);
  if (atMs === undefined) {
    throw new Problem("invalid_request", `\`since\` must be ${AGES}, ${TIMES}, not \`${given.slice(0, 40)}\``);
  }
  return Math.max(0, Math.ceil(atMs));
}

const AGE_MS_MAX = 10 * 365 * 24 * 3_600_000;

function readTime(query: GatewayRequest["query"], name: string): number | undefined {
  const given = queryText(query, name);
  if (given === undefined) return undefined;
  const atMs = timeOf(given);
  if (atMs !== undefined) return atMs;
  throw new Problem("invalid_request", `\`${name}\` must be ${TIMES}, not \`${given.slice(0, 40)}\``);
}

/** Unix times of this century differ in magnitude by their unit. */
function timeOf(given: string): number | undefined {
  const unix = /^\d{1,17}$/.test(given) ? Number(given) : null;
  const ms = unix === null ? (ISO_TIME.test(given) ? Date.parse(given) : Number.NaN) : unixToMs(unix);
  return Number.isFinite(ms) ? ms : undefined;
}

function unixToMs(unix: number): number {
  if (unix < 1e11) return unix * 1_000;
  return unix < 1e14 ? unix : unix / 1_000;
}

const ISO_TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;
