import { checkSum, DamageError, rowSum, textSum } from "./integrity/checksum.ts";

/** A record as `records r` stores it. */
export interface StoredRecord {
  readonly tbl: string;
  readonly id: string;
  readonly version: number;
  /** See `record-text.ts`. */
  readonly value: string;
  readonly due_ms: number | null;
  readonly queue: string | null;
  readonly score: number | null;
  readonly value_sum: number | null;
  readonly sum: number | null;
}

export const RECORD_COLUMNS = "r.tbl, r.id, r.version, r.value, r.due_ms, r.queue, r.score, r.value_sum, r.sum";

/** The row. Throws if it differs from what was written. */
export function checkedRecord<R extends StoredRecord>(row: R): R {
  const { tbl, id, version, value, due_ms, queue, score } = row;
  checkSum(row.sum, () => rowSum(tbl, id, version, due_ms, queue, score), tbl, id);
  checkSum(row.value_sum, () => textSum(value), tbl, id);
  return row;
}

/** A record with the list entry that refers to it. The columns of the record are null when it is missing. */
export interface ListedRecord extends StoredRecord {
  readonly list_tbl: string;
  readonly list_name: string;
  readonly list_score: number;
  readonly list_id: string;
  readonly list_sum: number | null;
}

export const LISTED_COLUMNS = `l.tbl as list_tbl, l.name as list_name, l.score as list_score, l.id as list_id, l.sum as list_sum, ${RECORD_COLUMNS}`;

export function checkedEntry(row: ListedRecord): ListedRecord {
  const { list_tbl, list_name, list_score, list_id, list_sum } = row;
  checkSum(
    list_sum,
    () => rowSum(list_tbl, list_name, list_score, list_id),
    `list \`${list_name}\` of ${list_tbl}`,
    list_id,
  );
  if ((row.id as string | null) === null) {
    throw new DamageError(`${list_tbl} \`${list_id}\` of list \`${list_name}\` is missing in cordum.db`);
  }
  return checkedRecord(row);
}
