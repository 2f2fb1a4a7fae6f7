import { DEAD_LETTERS, type DeadLetter, type DeadLetterFilter, deadLettersOf } from "../../core/model/dead-letter.ts";
import type { ScoreRange, Versioned } from "../../ports/store.ts";
import { auditPut } from "../audit/index.ts";
import type { Needs, RunContext } from "../engine.ts";
import { type DropOutcome, discardDeadLetter, type RetryOutcome, redriveDeadLetter } from "./redrive.ts";

/**
 * Retries or drops the dead letters of a query, oldest first, a page per call.
 *
 * 1. The state of the operation is its cursor, so it survives a restart of any process. A dead letter leaves the query in the
 *    commit that retries or drops it: repeating a page, also concurrently, changes nothing twice.
 * 2. `range` ends at the start of the operation. Retried jobs that fail again are newer and are not retried in a loop.
 */
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

export interface BulkPage {
  readonly done: number;
  /** Neither retried nor dropped; they stay in the query, before the cursor. */
  readonly rejected: readonly Handled[];
  /** The tenant's run limit stopped the page; `cursor` is before the dead letters that it stopped. */
  readonly stopped: Handled | null;
  readonly cursor: string | undefined;
  readonly isEnd: boolean;
}

export interface Handled {
  readonly deadLetter: Versioned<DeadLetter>;
  readonly outcome: BulkOutcome;
}

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

export async function bulkDeadLetters(engine: RunContext, request: BulkRequest): Promise<BulkPage> {
  const { org, filter, range, limit } = request;
  const index = deadLettersOf(org, filter);
  const rejected: Handled[] = [];
  let { cursor } = request;
  let done = 0;
  for (let seen = 0; seen < limit; seen += CHUNK) {
    const chunk = Math.min(CHUNK, limit - seen);
    const page = await engine.world.store.list(DEAD_LETTERS, {
      ...range,
      index,
      order: "oldest",
      limit: chunk,
      cursor,
    });
    const outcomes = await Promise.all(page.items.map((deadLetter) => applyTo(engine, deadLetter, request)));
    done += outcomes.filter(({ outcome }) => DONE.has(outcome.kind)).length;
    const stopped = outcomes.find(({ outcome }) => outcome.kind === "full") ?? null;
    if (stopped !== null) return { done, rejected, stopped, cursor, isEnd: false };
    // Another request was first if it is not found.
    rejected.push(...outcomes.filter(({ outcome }) => !DONE.has(outcome.kind) && outcome.kind !== "not_found"));
    if (page.cursor === null) return { done, rejected, stopped, cursor, isEnd: true };
    cursor = page.cursor;
  }
  return { done, rejected, stopped: null, cursor, isEnd: false };
}

async function applyTo(
  engine: RunContext,
  deadLetter: Versioned<DeadLetter>,
  { action, by }: BulkRequest,
): Promise<Handled> {
  const one = { org: deadLetter.value.org, id: deadLetter.id, by };
  const outcome = await (action === "retry" ? redriveDeadLetter(engine, one) : discardDeadLetter(engine, one));
  return { deadLetter, outcome };
}

const DONE: ReadonlySet<BulkOutcome["kind"]> = new Set<BulkOutcome["kind"]>(["revived", "sent_again", "dropped"]);
/** Commits in flight at a time. */
const CHUNK = 10;
