import { isMore } from "../record-text.ts";
import type { FlatEntries } from "./change.ts";
import type { FenceRow, OutboxRow, Row } from "./checkpoint-rows.ts";
import type { JournalStep } from "./participant.ts";

/** What a commit does, one thing at a time, and how the journal tells it. */
export type Step =
  | { readonly kind: "row"; readonly row: Row }
  | { readonly kind: "fence"; readonly fence: FenceRow }
  | { readonly kind: "send"; readonly message: OutboxRow }
  | { readonly kind: "sent"; readonly id: string };

/** A step that was done, and what stood there before. */
export type Done =
  | (Extract<Step, { kind: "row" }> & { readonly before: Row | undefined })
  | (Extract<Step, { kind: "fence" }> & { readonly before: FenceRow | undefined })
  | (Extract<Step, { kind: "send" | "sent" }> & { readonly before: OutboxRow | undefined });

/**
 * As pieces of a text, each with the comma before it; nobody has to put them together in memory. Values are JSON already, and
 * last: they are put in as they are. Rows are most of it, so their heads are written by hand.
 */
export function encodeEntry(step: Step, pieces: string[]): void {
  switch (step.kind) {
    case "row": {
      const { table, id, version, text, dueMs, queue, score, left, entered } = step.row;
      // JSON has no other numbers. Scores were checked.
      const due = Number.isFinite(dueMs) ? dueMs : null;
      const place = `${due},${queue === null ? null : quoted(queue)},${score},${flat(left)},${flat(entered)}`;
      const more = text !== null && isMore(text);
      const head = `,["${more ? "more" : "row"}",${quoted(table)},${quoted(id)},${version},${place},`;
      // With the end of the row before it, if there is one: what a piece costs is mostly the call that writes it.
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

const quoted = (text: string): string => (ODD.test(text) ? JSON.stringify(text) : `"${text}"`);

function flat(entries: FlatEntries): string {
  let text = "[";
  for (let at = 0; at < entries.length; at++) {
    const entry = entries[at]!;
    text += `${at === 0 ? "" : ","}${typeof entry === "string" ? quoted(entry) : entry}`;
  }
  return `${text}]`;
}

/** What has to be written in another way between quotes. */
const ODD = /["\\\p{Cc}\p{Cs}]/u;

/** Null when it is told by somebody else. */
export function readStep([word, ...rest]: JournalStep): Step | null {
  switch (word) {
    case "row":
    case "more": {
      const [table, id, version, dueMs, queue, score, left, entered, value] = rest as ToldRow;
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

type ToldRow = [
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
