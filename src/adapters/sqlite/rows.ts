import { isDelta } from "../record-text.ts";
import {
  DELETE_ENTRY,
  DELETE_MESSAGE,
  DELETE_RECORD,
  ENTRY,
  FENCE,
  MESSAGE,
  RECORD,
  type WriteBatch,
} from "./checkpoint.ts";
import { addColumn, bytesSum, ROW_START, rowSum, textSum } from "./integrity/checksum.ts";

// The rows of the memtable: how two changes of a row merge, how the journal encodes them, how a checkpoint writes them.

/** A record, with the list entries that it left and entered since the last checkpoint. */
export interface Row {
  readonly table: string;
  readonly id: string;
  /** 0 for a removed record. */
  readonly version: number;
  /** A document, or deltas to append to the stored text (`record-text.ts`). Null removes the record. */
  readonly text: string | null;
  readonly dueMs: number | null;
  readonly queue: string | null;
  readonly score: number | null;
  readonly left: FlatEntries;
  readonly entered: FlatEntries;
}

/** List entries as name, score, name, score …, without an object for each. */
export type FlatEntries = readonly (string | number)[];

export interface FenceRow {
  readonly table: string;
  readonly id: string;
  readonly fence: number;
  readonly atMs: number;
}

/** A message that is committed and not yet confirmed as sent. */
export interface OutboxRow {
  readonly id: string;
  readonly atMs: number;
  readonly seq: number;
  readonly subject: string;
  readonly json: string;
}

/** One effect of a commit. */
export type Step =
  | { readonly kind: "row"; readonly row: Row }
  | { readonly kind: "fence"; readonly fence: FenceRow }
  | { readonly kind: "send"; readonly message: OutboxRow }
  | { readonly kind: "sent"; readonly id: string };

/** A step with the value that it replaced in the memtable, for the rollback. */
export type AppliedStep =
  | (Extract<Step, { kind: "row" }> & { readonly before: Row | undefined })
  | (Extract<Step, { kind: "fence" }> & { readonly before: FenceRow | undefined })
  | (Extract<Step, { kind: "send" | "sent" }> & { readonly before: OutboxRow | undefined });

/** The row after two changes. A list entry that was entered by the first and left by the second cancels out. */
export function mergeRows(first: Row, second: Row): Row {
  const { table, id, version, text, dueMs, queue, score, left, entered } = second;
  return {
    table,
    id,
    version,
    text: text !== null && isDelta(text) ? `${first.text}${text}` : text,
    dueMs,
    queue,
    score,
    left: concat(first.left, without(left, first.entered)),
    entered: concat(without(first.entered, left), entered),
  };
}

function concat(first: FlatEntries, second: FlatEntries): FlatEntries {
  if (second.length === 0) return first;
  return first.length === 0 ? second : [...first, ...second];
}

function without(entries: FlatEntries, removed: FlatEntries): FlatEntries {
  if (entries.length === 0 || removed.length === 0) return entries;
  const kept: (string | number)[] = [];
  for (let i = 0; i < entries.length; i += 2) {
    let isRemoved = false;
    for (let j = 0; j < removed.length; j += 2) {
      isRemoved ||= removed[j] === entries[i] && removed[j + 1] === entries[i + 1];
    }
    if (!isRemoved) kept.push(entries[i]!, entries[i + 1]!);
  }
  return kept;
}

export function countEntries(entries: FlatEntries, lists: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < entries.length; i += 2) if (lists.includes(entries[i] as string)) count += 1;
  return count;
}

/** Most rows of a checkpoint are records and list entries. */
export function addRow(batch: WriteBatch, row: Row): void {
  const { table, id, version, text, dueMs, queue, score, left, entered } = row;
  const tableSum = addColumn(ROW_START, table);
  if (text === null) batch.add(DELETE_RECORD, table, id);
  else {
    // SQLite stores no NaN, and the sum must be that of the stored row.
    const due = Number.isFinite(dueMs) ? dueMs : null;
    const keySum = addColumn(addColumn(tableSum, id), version);
    const sum = addColumn(addColumn(addColumn(keySum, due), queue), score) >>> 0;
    batch.valuesOf(RECORD).push(table, id, version, text, due, queue, score, textSum(text), sum);
  }
  for (let i = 0; i < left.length; i += 2) batch.valuesOf(DELETE_ENTRY).push(table, left[i]!, left[i + 1]!, id);
  for (let i = 0; i < entered.length; i += 2) {
    const [name, at] = [entered[i]!, entered[i + 1]!];
    const sum = addColumn(addColumn(addColumn(tableSum, name), at), id) >>> 0;
    batch.valuesOf(ENTRY).push(table, name, at, id, sum);
  }
}

export function addFence(batch: WriteBatch, { table, id, fence, atMs }: FenceRow): void {
  batch.add(FENCE, table, id, fence, atMs, rowSum(table, id, fence, atMs));
}

export function addMessage(batch: WriteBatch, { id, atMs, seq, subject, json }: OutboxRow): void {
  batch.add(MESSAGE, id, atMs, seq, subject, json, rowSum(id, atMs, seq, subject, bytesSum(json)));
}

export function addSentMessage(batch: WriteBatch, id: string): void {
  batch.add(DELETE_MESSAGE, id);
}

/** A step as the journal stores it: a JSON array that starts with a word. */
export type JournalStep = readonly [word: string, ...rest: unknown[]];

/**
 * Appends the journal text of a step to `pieces`, preceded by a comma. The pieces are written to the file one by one and
 * never concatenated. Rows are most of the journal, so their array is built by hand around the record's JSON text.
 */
export function encodeStep(step: Step, pieces: string[]): void {
  switch (step.kind) {
    case "row": {
      const { table, id, version, text, dueMs, queue, score, left, entered } = step.row;
      // JSON has no NaN or Infinity. Scores are checked earlier.
      const due = Number.isFinite(dueMs) ? dueMs : null;
      const place = `${due},${queue === null ? null : quote(queue)},${score},${encodeEntries(left)},${encodeEntries(entered)}`;
      const word = text !== null && isDelta(text) ? "more" : "row";
      const head = `,["${word}",${quote(table)},${quote(id)},${version},${place},`;
      // Each piece costs one buffer write, so the head joins the end of the previous row.
      if (pieces.at(-1) === "]") pieces[pieces.length - 1] = `]${head}`;
      else pieces.push(head);
      pieces.push(text ?? "null", "]");
      return;
    }
    case "fence": {
      const { table, id, fence, atMs } = step.fence;
      pieces.push(",", JSON.stringify(["fence", table, id, fence, atMs]));
      return;
    }
    case "send": {
      const { id, atMs, seq, subject, json } = step.message;
      pieces.push(",", JSON.stringify(["send", id, atMs, seq, subject]).slice(0, -1), ",", json, "]");
      return;
    }
    case "sent":
      pieces.push(",", JSON.stringify(["sent", step.id]));
      return;
    default:
      step satisfies never;
  }
}

const quote = (text: string): string => (NEEDS_ESCAPE.test(text) ? JSON.stringify(text) : `"${text}"`);

/** Without the `u` flag, which takes twice as long. Paired surrogates match too, and JSON leaves them as they are. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes them
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/;

/** Few names are in most changes (`sharedName`). */
function quotedName(name: string): string {
  let quoted = quotedNames.get(name);
  if (quoted === undefined) {
    if (quotedNames.size >= QUOTED_NAMES_MAX) quotedNames.clear();
    quoted = quote(name);
    quotedNames.set(name, quoted);
  }
  return quoted;
}
const quotedNames = new Map<string, string>();
const QUOTED_NAMES_MAX = 4_096;

function encodeEntries(entries: FlatEntries): string {
  let text = "[";
  for (let at = 0; at < entries.length; at++) {
    const entry = entries[at]!;
    text += `${at === 0 ? "" : ","}${typeof entry === "string" ? quotedName(entry) : entry}`;
  }
  return `${text}]`;
}

/** Null for a step of another participant. */
export function decodeStep([word, ...rest]: JournalStep): Step | null {
  switch (word) {
    case "row":
    case "more": {
      const [table, id, version, dueMs, queue, score, left, entered, value] = rest as JournalRow;
      const text = value === null ? null : (word === "more" ? "\n" : "") + JSON.stringify(value);
      return { kind: "row", row: { table, id, version, text, dueMs, queue, score, left, entered } };
    }
    case "fence": {
      const [table, id, fence, atMs] = rest as [string, string, number, number];
      return { kind: "fence", fence: { table, id, fence, atMs } };
    }
    case "send": {
      const [id, atMs, seq, subject, packet] = rest as [string, number, number, string, unknown];
      return { kind: "send", message: { id, atMs, seq, subject, json: JSON.stringify(packet) } };
    }
    case "sent":
      return { kind: "sent", id: rest[0] as string };
    default:
      return null;
  }
}

type JournalRow = [
  table: string,
  id: string,
  version: number,
  dueMs: number | null,
  queue: string | null,
  score: number | null,
  left: FlatEntries,
  entered: FlatEntries,
  value: unknown,
];
