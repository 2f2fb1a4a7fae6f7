import type { Database, SqlValue, Statement } from "../database.ts";
import { bytesSum, checkSum, rowSum } from "../integrity/checksum.ts";

/** The SQL of stored messages: one row per message and consumer group. Writes run inside the caller's transaction. */
export class MessageRows {
  readonly #add: Statement;
  readonly #put: Statement;
  readonly #begin: Statement;
  readonly #delete: Statement;
  readonly #visible: Statement;
  readonly #nextVisible: Statement;
  readonly #subscribe: Statement;
  readonly #adopt: Statement;
  readonly #groups: Statement;
  readonly #sizes: Statement;
  readonly #lastSeq: Statement;

  constructor(db: Database) {
    const insert =
      "into messages (seq, subject, grp, id, packet, attempt, visible_ms, at_ms, sum) values (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    this.#add = db.prepare(`insert or ignore ${insert}`);
    this.#put = db.prepare(
      `insert ${insert} on conflict do update ` +
        "set packet = excluded.packet, attempt = max(attempt, excluded.attempt), visible_ms = excluded.visible_ms, " +
        "sum = excluded.sum",
    );
    this.#begin = db.prepare("update messages set attempt = ? where seq = ?");
    this.#delete = db.prepare("delete from messages where seq = ?");
    this.#visible = db.prepare(
      "select seq, subject, grp, id, packet, attempt, visible_ms, sum from messages " +
        "where subject = ? and grp = ? and visible_ms <= ? " +
        "order by visible_ms, seq limit ?",
    );
    this.#nextVisible = db.prepare(
      "select min(visible_ms) as ms from messages where subject = ? and grp = ? and visible_ms > ?",
    );
    this.#subscribe = db.prepare("insert or ignore into bus_groups (subject, name, sum) values (?, ?, ?)");
    this.#adopt = db.prepare(`update messages set grp = ?, sum = sum + ? where subject = ? and grp = '${NO_GROUP}'`);
    this.#groups = db.prepare("select subject, name, sum from bus_groups order by subject, name");
    this.#sizes = db.prepare(
      "select subject, grp as name, count(*) as size, min(at_ms) as oldestMs from messages group by 1, 2",
    );
    this.#lastSeq = db.prepare("select max(seq) as seq from messages");
  }

  /** Keeps an existing row: it may have a delay already. */
  add(row: MessageRow): void {
    this.#add.run(...valuesOf(row));
  }

  put(row: MessageRow): void {
    this.#put.run(...valuesOf(row));
  }

  /** Stores the number of a delivery. */
  begin(seq: number, attempt: number): void {
    this.#begin.run(attempt, seq);
  }

  delete(seq: number): void {
    this.#delete.run(seq);
  }

  /** The first rows that are visible. When these are all, also when the next delayed row becomes visible. */
  visible(subject: string, group: string, nowMs: number, limit: number): VisibleRows {
    const found = this.#visible.all(subject, group, nowMs, limit) as StoredMessage[];
    const rows = found.map((row) => ({ ...row, isDamaged: row.sum !== null && row.sum !== messageSum(row) }));
    if (rows.length === limit) return { rows, hasMore: true, nextMs: null };
    const { ms: nextMs } = this.#nextVisible.get(subject, group, nowMs) as { ms: number | null };
    return { rows, hasMore: false, nextMs };
  }

  /** Registers a group. The first group of a subject adopts the messages that were published before it. */
  subscribe(subject: string, group: string, isFirst: boolean): void {
    this.#subscribe.run(subject, group, rowSum(subject, group));
    if (isFirst) this.#adopt.run(group, rowSum(group) - rowSum(NO_GROUP), subject);
  }

  /** All registered groups, and `NO_GROUP` for every subject with messages but without a group. */
  stored(): StoredMessages {
    const sizes = this.#sizes.all() as StoredGroup[];
    const groups = this.#groups.all() as { subject: string; name: string; sum: number | null }[];
    for (const { subject, name, sum } of groups) checkSum(sum, () => rowSum(subject, name), "consumer group", name);
    const isEmpty = (group: { subject: string; name: string }) =>
      !sizes.some((one) => one.subject === group.subject && one.name === group.name);
    const { seq } = this.#lastSeq.get() as { seq: number | null };
    return {
      groups: [
        ...sizes,
        ...groups.filter(isEmpty).map(({ subject, name }) => ({ subject, name, size: 0, oldestMs: null })),
      ],
      lastSeq: seq ?? 0,
    };
  }
}

/** Group of messages on a subject without consumer groups. */
export const NO_GROUP = "";

/** `visible_ms` of a message that is kept and not delivered again. */
export const NEVER_MS = Number.MAX_SAFE_INTEGER;

export interface MessageRow {
  readonly seq: number;
  readonly subject: string;
  readonly group: string;
  readonly id: string;
  readonly packet: string | Uint8Array;
  readonly attempt: number;
  readonly visibleMs: number;
  readonly atMs: number;
}

export interface VisibleRow {
  readonly seq: number;
  readonly id: string;
  readonly packet: string | Uint8Array;
  readonly attempt: number;
  /** The row does not match its checksum. */
  readonly isDamaged: boolean;
}

/** The columns that the sum of a message covers, and the sum. */
interface StoredMessage extends Omit<VisibleRow, "isDamaged"> {
  readonly subject: string;
  readonly grp: string;
  readonly visible_ms: number;
  readonly sum: number | null;
}

/**
 * Without the number of attempts, which changes with each delivery, and without `seq`: a message that is published again keeps its row.
 * The group is a term of its own, which SQL can replace.
 */
function messageSum(row: Omit<StoredMessage, "seq" | "attempt" | "sum">): number {
  const { subject, grp, id, packet, visible_ms } = row;
  return rowSum(subject, id, visible_ms, bytesSum(packet)) + rowSum(grp);
}

export interface VisibleRows {
  readonly rows: readonly VisibleRow[];
  readonly hasMore: boolean;
  /** When the next delayed row becomes visible; null when there is none, or when `hasMore`. */
  readonly nextMs: number | null;
}

export interface StoredMessages {
  readonly groups: readonly StoredGroup[];
  readonly lastSeq: number;
}

export interface StoredGroup {
  readonly subject: string;
  readonly name: string;
  readonly size: number;
  readonly oldestMs: number | null;
}

function valuesOf(row: MessageRow): SqlValue[] {
  const { seq, subject, group, id, packet, attempt, visibleMs, atMs } = row;
  const sum = messageSum({ subject, grp: group, id, packet, visible_ms: visibleMs });
  return [seq, subject, group, id, packet, attempt, visibleMs, atMs, sum];
}
