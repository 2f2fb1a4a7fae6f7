import { type Change, type Committed, deltasOf, type Guard, movesOf, type Put } from "../../ports/store.ts";
import { jsonOf, textOf } from "../record-text.ts";

/**
 * A change as it travels to the scribe that writes it: values as text, moves instead of places.
 *
 * 1. All that can be worked out without the database is worked out here, where it fails its own caller and nobody else.
 * 2. What travels is small and plain: nobody can change it afterwards, and it could go to another thread.
 */
export interface PreparedChange {
  readonly atMs: number;
  readonly puts: readonly PreparedPut[];
  readonly guards: readonly Guard[];
  readonly deltas: ReturnType<typeof deltasOf>;
  readonly totals: NonNullable<Change["totals"]>;
  readonly sends: readonly PreparedSend[];
  readonly watch: Change["watch"];
}

export interface PreparedPut {
  readonly table: string;
  readonly id: string;
  readonly expect: number | null;
  /** See `record-text.ts`; null removes the record. */
  readonly text: string | null;
  readonly dueMs: number | null;
  readonly isDueMoved: boolean;
  readonly queue: string | null;
  readonly score: number | null;
  readonly isQueueMoved: boolean;
  /** The queue that it leaves, if any. */
  readonly queueLeft: string | null;
  readonly listsLeft: FlatEntries;
  readonly listsEntered: FlatEntries;
}

/** Name, score, name, score: a list of pairs without an object for each. */
export type FlatEntries = readonly (string | number)[];

export interface PreparedSend {
  readonly id: string;
  readonly subject: string;
  readonly json: string;
}

/** As `Committed`, but a refusal names the guard by its place in the change. */
export type PreparedCommitted =
  | Exclude<Committed, { kind: "refused" }>
  | { kind: "refused"; at: number; value: number };

export function prepareChange(change: Change): PreparedChange {
  const { atMs, guards, watch, totals = NONE } = change;
  const puts = change.puts.map(preparePut);
  if (puts.length > 1 && new Set(puts.map(({ table, id }) => `${table}\n${id}`)).size < puts.length) {
    throw new Error("a change may put each record once");
  }
  const sends = change.sends.map(({ id, subject, packet }) => {
    return { id, subject, json: jsonOf(packet, `message \`${id}\``) };
  });
  return { atMs, puts, guards, deltas: deltasOf(change.puts), totals, sends, watch };
}

export function committedOf(change: Change, answer: PreparedCommitted): Committed {
  if (answer.kind !== "refused") return answer;
  return { kind: "refused", guard: change.guards[answer.at]!, value: answer.value };
}

function preparePut(put: Put): PreparedPut {
  const { table, id, expect, from, to } = put;
  for (const { score } of to.lists) checkScore(put, score);
  if (to.queue !== null) checkScore(put, to.queue.score);
  const moves = movesOf(put);
  return {
    table,
    id,
    expect,
    text: put.value === null ? null : textOf(put),
    dueMs: to.dueMs,
    isDueMoved: from.dueMs !== to.dueMs,
    queue: to.queue?.name ?? null,
    score: to.queue?.score ?? null,
    isQueueMoved: moves.queueAdded !== null || moves.queueRemoved !== null,
    queueLeft: moves.queueRemoved?.name ?? null,
    listsLeft: flat(moves.listsRemoved),
    listsEntered: flat(moves.listsAdded),
  };
}

function flat(entries: Put["to"]["lists"]): FlatEntries {
  const values: (string | number)[] = [];
  for (const { name, score } of entries) values.push(name, score);
  return values;
}

function checkScore({ table, id }: Put, score: number): void {
  if (Number.isSafeInteger(score) && score >= 0) return;
  throw new Error(`${table} \`${id}\` has the score ${score}: a score is an integer from 0 to 2^52 - 1`);
}

const NONE: NonNullable<Change["totals"]> = [];
