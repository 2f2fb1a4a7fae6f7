/** Filters and groups of dead letters. */
import { type TSchema, Type } from "typebox";
import { bareTopic } from "../../core/model/canonical.ts";
import {
  DEAD_LETTER_REASONS,
  type DeadLetterFilter,
  ERROR_NAME_LENGTH_MAX,
  errorNameOf,
  isFingerprint,
  messagePattern,
  topicOf,
} from "../../core/model/dead-letter.ts";
import { redactText } from "../../core/model/redact.ts";
import { parseDuration } from "../../core/retry/duration.ts";
import type { DeadLetterGroup } from "../../engine/maintenance/index.ts";
import type { ScoreRange } from "../../ports/store.ts";
import { Problem } from "../problem.ts";

const AGES = "a duration such as `90s`, `15m`, `24h` or `7d`";
const text = (maxLength: number, description: string): TSchema =>
  Type.Optional(Type.String({ maxLength, description }));

export const DEAD_LETTER_FILTERS = {
  topic: text(300, "Only of this topic, or of this subject of messages."),
  reason: text(40, "Only with this reason: `permanent`, `undecodable`, `budget` or `timeout`."),
  error: text(ERROR_NAME_LENGTH_MAX, "Only with this error name, such as `TypeError`."),
  fingerprint: text(40, "Only of this group; it implies topic, reason and error, which must be omitted."),
  older_than: text(20, `Only older ones: ${AGES}.`),
  newer_than: text(20, `Only younger ones: ${AGES}.`),
};

export type FilterFields = { readonly [name in keyof typeof DEAD_LETTER_FILTERS]?: string | undefined };

export function readDeadLetterFilter({ topic, reason, error, fingerprint }: FilterFields): DeadLetterFilter {
  if (fingerprint !== undefined) {
    if (!isFingerprint(fingerprint)) {
      const shown = fingerprint.slice(0, 40);
      throw new Problem(
        "invalid_request",
        `\`fingerprint\` must be one of \`GET /api/v1/dlq/groups\`, not \`${shown}\``,
      );
    }
    if ([topic, reason, error].every((one) => one === undefined)) return { fingerprint };
    throw new Problem("invalid_request", "`fingerprint` implies topic, reason and error; omit them");
  }
  const known = DEAD_LETTER_REASONS.find((one) => one === reason);
  if (reason !== undefined && known === undefined) {
    const names = DEAD_LETTER_REASONS.map((one) => `\`${one}\``).join(", ");
    throw new Problem("invalid_request", `unknown reason \`${reason.slice(0, 40)}\`; known are ${names}`);
  }
  return {
    topic: topic === undefined ? undefined : bareTopic(topic),
    reason: known,
    error: error === undefined ? undefined : errorNameOf(error),
  };
}

/** Ages as creation times. */
export function readAges(fields: FilterFields, nowMs: number): ScoreRange {
  const [olderMs, newerMs] = [readAge(fields, "older_than"), readAge(fields, "newer_than")];
  return {
    scoreMin: newerMs === undefined ? undefined : Math.max(0, nowMs - newerMs),
    scoreMax: olderMs === undefined ? undefined : Math.max(0, nowMs - olderMs),
  };
}

function readAge(fields: FilterFields, name: "older_than" | "newer_than"): number | undefined {
  const given = fields[name];
  if (given === undefined) return undefined;
  try {
    return parseDuration(given, { msMin: 0, msMax: AGE_MS_MAX });
  } catch (error) {
    throw new Problem("invalid_request", `\`${name}\`: ${(error as Error).message}`);
  }
}

const AGE_MS_MAX = 10 * 365 * 24 * 3_600_000;

export const DEAD_LETTER_GROUPS = Type.Object(
  {
    items: Type.Array(
      Type.Object(
        {
          fingerprint: Type.String(),
          count: Type.Integer(),
          topic: Type.String({ description: "The topic; the subject of messages." }),
          reason: Type.String(),
          error: Type.String({ description: "Name of the error." }),
          pattern: Type.String({ description: "The error message without ids, numbers, times and quoted values." }),
          first_seen: Type.String(),
          last_seen: Type.String(),
          sample_id: Type.String({ description: "Id of the newest dead letter of the group." }),
          fix: Type.Object({
            what: Type.String({ description: "What to do." }),
            command: Type.String({ description: "The command that completes it." }),
          }),
        },
        { title: "DeadLetterGroup" },
      ),
      { description: "The largest groups first, at most 200." },
    ),
    more: Type.Boolean({ description: "True if there are further groups." }),
    next_cursor: Type.Null(),
  },
  { title: "DeadLetterGroups" },
);

export function groupView({ fingerprint, count, newest, firstMs }: DeadLetterGroup): object {
  return {
    fingerprint,
    count,
    topic: topicOf(newest),
    reason: newest.reason,
    error: redactText(newest.error.name),
    pattern: redactText(messagePattern(newest.error.message)),
    first_seen: new Date(firstMs).toISOString(),
    last_seen: new Date(newest.createdMs).toISOString(),
    sample_id: newest.id,
    fix: {
      what: FIXES[newest.reason],
      command: `cordum dlq ${newest.reason === "undecodable" ? "drop" : "retry"} --fingerprint ${fingerprint}`,
    },
  };
}

const FIXES = {
  permanent: "the worker rejected the input: correct the worker, then retry; or drop",
  budget: "every retry failed: remove the cause of the error, then retry",
  budget_exhausted: "a budget of the policy has no room: raise it, or wait for the next day, then retry",
  timeout: "the deadline passed: check the workers of the topic (`cordum worker list`), then retry",
  undecodable: "the bytes are no packet: correct the sender, then drop; they cannot be retried",
} as const;
