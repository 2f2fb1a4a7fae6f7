import { createHash } from "node:crypto";
import type { DeadLetterReason } from "../retry/bus-action.ts";
import type { WireError } from "../retry/intent.ts";
import { EVERY_ORG } from "./api-key.ts";
import { type Arms, budgetDeathsIn, budgetDeathsOf } from "./arms.ts";
import { bareTopic } from "./canonical.ts";
import type { HistoryLine, Job, Payload } from "./job.ts";
import type { Entry, Placement, Table } from "./table.ts";

/**
 * A failed job or message with its payload, error and history. Written in the commit that ends the job, or before the
 * message is terminated.
 */
export interface DeadLetter {
  readonly id: string;
  /** The tenant; `*` for messages without a known tenant. */
  readonly org: string;
  readonly createdMs: number;
  readonly dueMs: number;
  readonly reason: DeadLetterReason;
  readonly error: WireError;
  readonly source: DeadLetterSource;
  readonly history: readonly HistoryLine[];
  /** See `fingerprintOf`. Absent in dead letters of earlier versions until `FingerprintBackfill` has written them again. */
  readonly fingerprint?: string;
  /** The arms of the run or job, and its id. */
  readonly arms?: Arms;
  readonly unit?: string;
}

export type DeadLetterSource =
  | {
      readonly kind: "job";
      readonly jobId: string;
      readonly topic: string;
      readonly attempt: number;
      readonly input: Payload;
    }
  | {
      readonly kind: "message";
      readonly subject: string;
      readonly messageId: string;
      readonly deliveries: number;
      /** The bytes as received. */
      readonly base64: string;
      /** Resend the bytes unchanged: the sender may have signed them. */
      readonly isVerbatim?: true;
    };

export const DEAD_LETTERS: Table<DeadLetter> = {
  name: "dead_letter",
  placement(deadLetter): Placement {
    const { org, fingerprint, createdMs: score } = deadLetter;
    const lists: Entry[] = [];
    const counters = [{ group: "dead_letters", name: org }];
    for (const owner of org === EVERY_ORG ? [org] : [org, EVERY_ORG]) {
      lists.push({ name: deadLettersOf(owner), score });
      if (fingerprint === undefined) continue;
      for (const filter of filtersOf(deadLetter)) lists.push({ name: deadLettersOf(owner, filter), score });
      lists.push({ name: deadLettersOf(owner, { fingerprint }), score });
      counters.push({ group: deadLetterGroupsOf(owner), name: fingerprint });
    }
    if (deadLetter.reason === "budget") {
      for (const [id, { arm }] of Object.entries(deadLetter.arms ?? {})) {
        lists.push({ name: budgetDeathsIn(id, arm), score: deadLetter.createdMs });
        counters.push(budgetDeathsOf(id, arm));
      }
    }
    return { lists, queue: null, counters, dueMs: deadLetter.dueMs };
  },
};

export const DEAD_LETTER_REASONS: readonly DeadLetterReason[] = [
  "permanent",
  "undecodable",
  "budget",
  "timeout",
  "budget_exhausted",
];

/** Each combination has an index of its own, so that pages are full and counts exact. */
export type DeadLetterFilter =
  | {
      readonly topic?: string | undefined;
      readonly reason?: DeadLetterReason | undefined;
      /** The name of the error; see `errorNameOf`. */
      readonly error?: string | undefined;
      readonly fingerprint?: undefined;
    }
  /** Implies the others. */
  | {
      readonly fingerprint: string;
      readonly topic?: undefined;
      readonly reason?: undefined;
      readonly error?: undefined;
    };

/** Dead letters of a tenant; under `*` those of all tenants and those without one. */
export function deadLettersOf(org: string, { topic, reason, error, fingerprint }: DeadLetterFilter = {}): string {
  if (fingerprint !== undefined) return `dead_letters/${org}/group/${fingerprint}`;
  if (topic === undefined && reason === undefined && error === undefined) return `dead_letters/${org}`;
  // Workers choose the error name, so it is last. Reasons and topics have no `/`.
  return `dead_letters/${org}/where/${reason ?? ""}/${topic ?? ""}/${error ?? ""}`;
}

/** The filters that match a dead letter: every combination of its topic, reason and error. */
function filtersOf(deadLetter: DeadLetter): readonly DeadLetterFilter[] {
  const [topic, reason, error] = [topicOf(deadLetter), deadLetter.reason, errorNameOf(deadLetter.error.name)];
  return [
    { topic },
    { reason },
    { error },
    { topic, reason },
    { topic, error },
    { reason, error },
    { topic, reason, error },
  ];
}

/** Bounded and not empty: workers choose it, and it is part of index names. */
export const errorNameOf = (name: string): string => name.slice(0, ERROR_NAME_LENGTH_MAX) || "Error";
export const ERROR_NAME_LENGTH_MAX = 80;

/** Counts dead letters by fingerprint. */
export const deadLetterGroupsOf = (org: string): string => `dead_letter_groups/${org}`;

/** The topic without `job.`; the subject of a message. */
export const topicOf = ({ source }: Pick<DeadLetter, "source">): string =>
  source.kind === "job" ? bareTopic(source.topic) : source.subject;

export function withFingerprint(deadLetter: DeadLetter): DeadLetter {
  const { reason, error } = deadLetter;
  const failure = { topic: topicOf(deadLetter), reason, errorName: error.name, message: error.message };
  return { ...deadLetter, fingerprint: fingerprintOf(failure) };
}

/** The dead letter of a failed or timed-out job; `null` for other states. A denial is not a failure. */
export function deadLetterOf(job: Job): DeadLetter | null {
  if (job.state !== "FAILED" && job.state !== "TIMEOUT") return null;
  const error = job.error ?? { name: "Error", message: job.state };
  return withFingerprint({
    id: job.id,
    org: job.org,
    createdMs: job.updatedMs,
    dueMs: job.dueMs,
    reason: reasonOf(job, error),
    error,
    source: { kind: "job", jobId: job.id, topic: job.topic, attempt: job.attempt, input: job.input },
    history: job.history,
    ...armsOf(job),
  });
}

function reasonOf({ state }: Job, { code, retryNever }: WireError): DeadLetterReason {
  if (state === "TIMEOUT") return "timeout";
  if (code === "budget_exhausted") return "budget_exhausted";
  return retryNever ? "permanent" : "budget";
}

/** The fields of a dead letter that name the unit of the job: its run, or the job itself. */
export const armsOf = ({ id, step, arms }: Job): Pick<DeadLetter, "arms" | "unit"> =>
  arms === undefined ? {} : { arms, unit: step?.runId ?? id };

/**
 * Groups failures by what they have in common: the message without the parts that differ between occurrences (ids, numbers,
 * times, quoted values). Messages are written by workers, so input and output are bounded and every expression is linear.
 */
export interface Failure {
  readonly topic: string;
  readonly reason: string;
  readonly errorName: string;
  readonly message: string;
}

export function messagePattern(message: string): string {
  let text = message.slice(0, READ_MAX).replace(/[\s\p{Cc}]+/gu, " ");
  for (const [part, name] of VARIABLE) text = text.replace(part, name);
  return text.trim().slice(0, PATTERN_LENGTH_MAX);
}

/** 16 hexadecimal digits. */
export function fingerprintOf({ topic, reason, errorName, message }: Failure): string {
  const key = JSON.stringify([topic, reason, errorName, messagePattern(message)]);
  return createHash("sha256").update(key).digest("hex").slice(0, FINGERPRINT_LENGTH);
}

export const isFingerprint = (text: string): boolean => /^[0-9a-f]{16}$/.test(text);

const FINGERPRINT_LENGTH = 16;
const READ_MAX = 500;
export const PATTERN_LENGTH_MAX = 200;

/** In this order: a number inside of a quoted value or an id is not replaced on its own. */
const VARIABLE: readonly (readonly [RegExp, string])[] = [
  [/"[^"]*"|`[^`]*`|(?<![\p{L}\p{N}])'[^']*'/gu, "<value>"],
  [/\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?/g, "<time>"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<id>"],
  [/\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b/gi, "<hex>"],
  // Words with digits such as `job-7f3a` and `user_12`, but not `http2`.
  [/\p{L}[\p{L}\p{N}]*(?:[_~:/-][\p{L}\p{N}]+)*[_~:/-]\p{L}*\p{N}[\p{L}\p{N}]*/gu, "<id>"],
  [/(?<![\p{L}\p{N}])\d+(?:[.,:]\d+)*/gu, "<n>"],
];
