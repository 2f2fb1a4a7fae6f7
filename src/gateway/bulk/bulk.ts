/**
 * Bulk operations over HTTP: a dry run counts and shows a sample, then a page per request.
 *
 * 1. Range and count are part of the cursor, so every page of an operation has those that the operator confirmed (L49).
 * 2. An operation changes at most as many records as were counted, also if others have entered its query meanwhile.
 */
import { type TSchema, Type } from "typebox";
import type { Table } from "../../core/model/table.ts";
import type { Engine } from "../../engine/engine.ts";
import type { BulkPage, Handled } from "../../engine/maintenance/index.ts";
import type { Index, ScoreRange, Versioned } from "../../ports/store.ts";
import { invalidCursorProblem, type Problem } from "../problem.ts";
import { type GatewayResponse, ok } from "../route.ts";
import { nameOf, readCursor, writeCursor } from "../views/page.ts";

export const BULK_FIELDS = {
  dry_run: Type.Optional(Type.Boolean({ description: "Count and show a sample; change nothing." })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 100, description: "Records per request." })),
  cursor: Type.Optional(
    Type.String({
      maxLength: 2_000,
      description: "`next_cursor` of the previous request of the operation, with the same action and filter.",
    }),
  ),
};

export interface BulkFields {
  readonly action: string;
  readonly dry_run?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

const REJECTED = Type.Object({ id: Type.String(), code: Type.String(), error: Type.String() });

export const bulkPageOf = (record: TSchema, title: string): TSchema =>
  Type.Object(
    {
      action: Type.String(),
      dry_run: Type.Boolean(),
      matched: Type.Integer({ description: "Records that matched at the start of the operation." }),
      done: Type.Integer({ description: "Changed by this request." }),
      rejected: Type.Array(REJECTED, { description: "Left as they are; the operation continues after them." }),
      stopped: Type.Union([REJECTED, Type.Null()], {
        description: "The run limit of the tenant was reached: send `next_cursor` later.",
      }),
      sample: Type.Array(record, { description: "With `dry_run`: the oldest that match, at most 5." }),
      next_cursor: Type.Union([Type.String(), Type.Null()], {
        description:
          "Continues the operation, also after a restart; of a dry run, starts it on exactly what was counted. Null at the end.",
      }),
    },
    { title },
  );

/** The range of an operation, and the number of its records at the start. */
export interface Frozen {
  readonly range: ScoreRange;
  readonly matched: number;
}

export interface BulkQuery<T, O> {
  readonly table: Table<T>;
  readonly index: Index;
  /** Of an operation that starts now. It ends at the present. */
  readonly range: ScoreRange;
  readonly view: (record: Versioned<T>) => object;
  readonly idOf: (record: Versioned<T>) => string;
  /** Audits the start of the operation. */
  readonly record: (operation: Frozen) => Promise<void>;
  readonly change: (
    page: Frozen & { readonly limit: number; readonly cursor: string | undefined },
  ) => Promise<BulkPage<T, O>>;
  readonly problemOf: (handled: Handled<T, O>) => Problem;
}

export async function runBulk<T, O>(
  { world: { store } }: Pick<Engine, "world">,
  { action, dry_run: isDryRun = false, limit = 100, cursor }: BulkFields,
  { table, index, ...query }: BulkQuery<T, O>,
): Promise<GatewayResponse> {
  const cursorName = `${nameOf(index)}?${action}`;
  const position = readPosition(readCursor(cursor, cursorName)) ?? (await start());
  const { range, matched, left } = position;
  const summary = { action, dry_run: isDryRun, matched, done: 0, rejected: [], stopped: null, sample: [] };
  if (left === 0) return ok({ ...summary, next_cursor: null });
  if (isDryRun) {
    const from = { ...range, index, order: "oldest", limit: SAMPLE_MAX, cursor: position.cursor } as const;
    const { items } = await store.list(table, from);
    return ok({ ...summary, sample: items.map(query.view), next_cursor: next(position) });
  }
  if (position.cursor === undefined) await query.record({ range, matched });
  const page = await query.change({ range, matched, limit: Math.min(limit, left), cursor: position.cursor });
  const rejectedView = (handled: Handled<T, O>) => {
    const { code, message } = query.problemOf(handled);
    return { id: query.idOf(handled.record), code, error: message };
  };
  const leftAfter = left - page.done - page.rejected.length;
  const isEnd = page.isEnd || leftAfter <= 0;
  return ok({
    ...summary,
    done: page.done,
    rejected: page.rejected.map(rejectedView),
    stopped: page.stopped && rejectedView(page.stopped),
    next_cursor: isEnd ? null : next({ range, matched, left: leftAfter, cursor: page.cursor }),
  });

  async function start(): Promise<Position> {
    const found = await store.count(table, { ...query.range, index });
    return { range: query.range, matched: found, left: found, cursor: undefined };
  }

  function next(from: Position): string {
    return writeCursor(cursorName, writePosition(from));
  }
}

interface Position extends Frozen {
  readonly left: number;
  readonly cursor: string | undefined;
}

const writePosition = ({ range: { scoreMin, scoreMax }, matched, left, cursor = "" }: Position): string =>
  `${scoreMin},${scoreMax},${matched},${left},${cursor}`;

function readPosition(text: string | undefined): Position | null {
  if (text === undefined) return null;
  const [, min, max, matched, left, cursor] = /^(\d{1,15}),(\d{1,15}),(\d{1,15}),(\d{1,15}),(.*)$/s.exec(text) ?? [];
  if (cursor === undefined) throw invalidCursorProblem();
  return {
    range: { scoreMin: Number(min), scoreMax: Number(max) },
    matched: Number(matched),
    left: Number(left),
    cursor: cursor === "" ? undefined : cursor,
  };
}

/** An operation ends at the present: what appears later is not part of it. */
export function operationRange({ scoreMin, scoreMax }: ScoreRange, nowMs: number): ScoreRange {
  return { scoreMin: scoreMin ?? 0, scoreMax: scoreMax ?? nowMs };
}

const SAMPLE_MAX = 5;
