import { isMore } from "../record-text.ts";
import type { FlatEntries } from "./change.ts";
import {
  DELETE_ENTRY,
  DELETE_MESSAGE,
  DELETE_RECORD,
  ENTRY,
  FENCE,
  MESSAGE,
  RECORD,
  type WriteBatch,
} from "./write-batch.ts";

// What memory has of records, fences and the outbox, and how it gets onto a sheet.

export function addRow(batch: WriteBatch, row: Row): void {
  const { table, id, version, text, dueMs, queue, score, left, entered } = row;
  if (text === null) batch.add(DELETE_RECORD, table, id);
  else batch.add(RECORD, table, id, version, text, dueMs, queue, score);
  for (let i = 0; i < left.length; i += 2) batch.add(DELETE_ENTRY, table, left[i]!, left[i + 1]!, id);
  for (let i = 0; i < entered.length; i += 2) batch.add(ENTRY, table, entered[i]!, entered[i + 1]!, id);
}

export function addFence(batch: WriteBatch, { table, id, fence, atMs }: FenceRow): void {
  batch.add(FENCE, table, id, fence, atMs);
}

export function addMessage(batch: WriteBatch, { id, atMs, seq, subject, json }: OutboxRow): void {
  batch.add(MESSAGE, id, atMs, seq, subject, json);
}

export function addMessageGone(batch: WriteBatch, id: string): void {
  batch.add(DELETE_MESSAGE, id);
}

/** A record, and the entries of lists that it left and entered since the tables were told. */
export interface Row {
  readonly table: string;
  readonly id: string;
  /** 0 when it is gone. */
  readonly version: number;
  /** What the tables do not have of it (see `record-text.ts`); null removes it. */
  readonly text: string | null;
  readonly dueMs: number | null;
  readonly queue: string | null;
  readonly score: number | null;
  readonly left: FlatEntries;
  readonly entered: FlatEntries;
}

export interface FenceRow {
  readonly table: string;
  readonly id: string;
  readonly fence: number;
  readonly atMs: number;
}

/** A message that was committed and not yet confirmed as sent. */
export interface OutboxRow {
  readonly id: string;
  readonly atMs: number;
  readonly seq: number;
  readonly subject: string;
  readonly json: string;
}

/** Where a record moved by two changes. An entry that came and went leaves no trace. */
export function afterBoth(first: Row, { table, id, version, text, dueMs, queue, score, left, entered }: Row): Row {
  return {
    table,
    id,
    version,
    text: text !== null && isMore(text) ? `${first.text}${text}` : text,
    dueMs,
    queue,
    score,
    left: joined(first.left, without(left, first.entered)),
    entered: joined(without(first.entered, left), entered),
  };
}

function joined(first: FlatEntries, then: FlatEntries): FlatEntries {
  if (then.length === 0) return first;
  return first.length === 0 ? then : [...first, ...then];
}

export function countOf(entries: FlatEntries, lists: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < entries.length; i += 2) if (lists.includes(entries[i] as string)) count += 1;
  return count;
}

function without(entries: FlatEntries, gone: FlatEntries): FlatEntries {
  if (entries.length === 0 || gone.length === 0) return entries;
  const kept: (string | number)[] = [];
  for (let i = 0; i < entries.length; i += 2) {
    let isGone = false;
    for (let j = 0; j < gone.length; j += 2) isGone ||= gone[j] === entries[i] && gone[j + 1] === entries[i + 1];
    if (!isGone) kept.push(entries[i]!, entries[i + 1]!);
  }
  return kept;
}
