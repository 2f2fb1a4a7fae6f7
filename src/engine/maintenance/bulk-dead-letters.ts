import { DEAD_LETTERS, type DeadLetter, type DeadLetterFilter, deadLettersOf } from "../../core/model/dead-letter.ts";
import type { ScoreRange, Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { type BulkPage, changePage, type Verdict } from "./bulk.ts";
import { type DropOutcome, discardDeadLetter, type RetryOutcome, redriveDeadLetter } from "./redrive.ts";

/** Retries or drops the dead letters of a query. Retried jobs that fail again are newer than `range`: there is no loop. */
export interface BulkOperation {
  readonly action: BulkAction;
  /** `*` for all tenants. */
  readonly org: string;
  readonly filter: DeadLetterFilter;
  readonly range: ScoreRange;
  /** The number of dead letters at the start. */
  readonly matched: number;
  readonly by: string;
}

export interface BulkRequest extends BulkOperation {
  readonly limit: number;
  readonly cursor: string | undefined;
}

export type BulkAction = "retry" | "drop";
export type BulkOutcome = RetryOutcome | DropOutcome;

/** Audits the start of an operation, before its first page. Each dead letter has an entry of its own in addition. */
export async function recordBulk(engine: Needs<"commit" | "audit">, operation: BulkOperation): Promise<void> {
  const { action, org, filter, range, matched, by: who } = operation;
  const { topic = null, reason = null, error = null, fingerprint = null } = filter;
  const facts = {
    topic,
    reason,
    error,
    fingerprint,
    matched,
    from: range.scoreMin ?? 0,
    until: range.scoreMax ?? null,
  };
  const entry = auditPut(engine, { org, kind: "dead_letter", who, what: `bulk ${action}`, facts });
  await engine.commit({ org, puts: [entry] });
}

export function bulkDeadLetters(engine: RunContext, request: BulkRequest): Promise<BulkPage<DeadLetter, BulkOutcome>> {
  const { action, org, filter, by } = request;
  const change = ({ id, value }: Versioned<DeadLetter>): Promise<BulkOutcome> => {
    const one = { org: value.org, id, by };
    return action === "retry" ? redriveDeadLetter(engine, one) : discardDeadLetter(engine, one);
  };
  return changePage(engine, { ...request, table: DEAD_LETTERS, index: deadLettersOf(org, filter) }, change, verdictOf);
}

export function verdictOf({ kind }: BulkOutcome): Verdict {
  switch (kind) {
    case "revived":
    case "sent_again":
    case "dropped":
      return "done";
    case "full":
      return "stopped";
    case "not_found":
      return "gone";
    default:
      return "rejected";
  }
}
