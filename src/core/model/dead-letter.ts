import type { DeadLetterReason } from "../retry/bus-action.ts";
import type { WireError } from "../retry/intent.ts";
import { EVERY_ORG } from "./api-key.ts";
import { type Arms, budgetDeathsIn, budgetDeathsOf } from "./arms.ts";
import type { HistoryLine, Job, Payload } from "./job.ts";
import type { Placement, Table } from "./table.ts";

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
    const lists = [{ name: deadLettersOf(deadLetter.org), score: deadLetter.createdMs }];
    if (deadLetter.org !== EVERY_ORG) lists.push({ name: deadLettersOf(EVERY_ORG), score: deadLetter.createdMs });
    const counters = [{ group: "dead_letters", name: deadLetter.org }];
    if (deadLetter.reason === "budget") {
      for (const [id, { arm }] of Object.entries(deadLetter.arms ?? {})) {
        lists.push({ name: budgetDeathsIn(id, arm), score: deadLetter.createdMs });
        counters.push(budgetDeathsOf(id, arm));
      }
    }
    return { lists, queue: null, counters, dueMs: deadLetter.dueMs };
  },
};

/** Dead letters of a tenant; under `*` those of all tenants and those without one. */
export const deadLettersOf = (org: string): string => `dead_letters/${org}`;

/** The dead letter of a failed or timed-out job; `null` for other states. A denial is not a failure. */
export function deadLetterOf(job: Job): DeadLetter | null {
  if (job.state !== "FAILED" && job.state !== "TIMEOUT") return null;
  const error = job.error ?? { name: "Error", message: job.state };
  return {
    id: job.id,
    org: job.org,
    createdMs: job.updatedMs,
    dueMs: job.dueMs,
    reason: job.state === "TIMEOUT" ? "timeout" : error.retryNever ? "permanent" : "budget",
    error,
    source: { kind: "job", jobId: job.id, topic: job.topic, attempt: job.attempt, input: job.input },
    history: job.history,
    ...armsOf(job),
  };
}

/** The fields of a dead letter that name the unit of the job: its run, or the job itself. */
export const armsOf = ({ id, step, arms }: Job): Pick<DeadLetter, "arms" | "unit"> =>
  arms === undefined ? {} : { arms, unit: step?.runId ?? id };
