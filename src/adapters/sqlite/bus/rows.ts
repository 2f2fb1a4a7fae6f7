import type { Content } from "../../../ports/bus.ts";
import type { Packet } from "../../../protocol/packet.ts";
import type { Database, SqlValue, Statement } from "../database.ts";

/** The messages that had to be written down: one row for each message and group. All calls run inside a transaction. */
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
      "into messages (seq, subject, grp, id, packet, attempt, visible_ms, at_ms) values (?, ?, ?, ?, ?, ?, ?, ?)";
    this.#add = db.prepare(`insert or ignore ${insert}`);
    this.#put = db.prepare(
      `insert ${insert} on conflict do update ` +
        "set attempt = max(attempt, excluded.attempt), visible_ms = excluded.visible_ms",
    );
    this.#begin = db.prepare("update messages set attempt = ? where seq = ?");
    this.#delete = db.prepare("delete from messages where seq = ?");
    this.#visible = db.prepare(
      "select seq, id, packet, attempt from messages where subject = ? and grp = ? and visible_ms <= ? " +
        "order by visible_ms, seq limit ?",
    );
    this.#nextVisible = db.prepare(
      "select min(visible_ms) as ms from messages where subject = ? and grp = ? and visible_ms > ?",
    );
    this.#subscribe = db.prepare("insert or ignore into bus_groups (subject, name) values (?, ?)");
    this.#adopt = db.prepare(`update messages set grp = ? where subject = ? and grp = '${NO_GROUP}'`);
    this.#groups = db.prepare("select subject, name from bus_groups order by subject, name");
    this.#sizes = db.prepare(
      "select subject, grp as name, count(*) as size, min(at_ms) as oldestMs from messages group by 1, 2",
    );
    this.#lastSeq = db.prepare("select max(seq) as seq from messages");
  }

  /** Leaves a row that is there already as it is: it may have been given a delay since. */
  add(row: MessageRow): void {
    this.#add.run(...valuesOf(row));
  }

  put(row: MessageRow): void {
    this.#put.run(...valuesOf(row));
  }

  begin(seq: number, attempt: number): void {
    this.#begin.run(attempt, seq);
  }

  delete(seq: number): void {
    this.#delete.run(seq);
  }

  /** The first rows that are ready; when there are no more of them, also when the next delayed one is. */
  visible(subject: string, group: string, nowMs: number, limit: number): Visible {
    const rows = this.#visible.all(subject, group, nowMs, limit) as VisibleRow[];
    if (rows.length === limit) return { rows, hasMore: true, nextMs: null };
    const { ms: nextMs } = this.#nextVisible.get(subject, group, nowMs) as { ms: number | null };
    return { rows, hasMore: false, nextMs };
  }

  /** From now on the group gets every message; the first group of a subject also gets what waited for it. */
  subscribe(subject: string, group: string, isFirst: boolean): void {
    this.#subscribe.run(subject, group);
    if (isFirst) this.#adopt.run(group, subject);
  }

  /** What an earlier boot left. */
  found(): FoundMessages {
    const last = this.#lastSeq.get() as { seq: number | null };
    return { groups: this.#known(), lastSeq: last.seq ?? 0 };
  }

  /** Every group that ever subscribed, and every subject with messages that nobody has asked for yet. */
  #known(): readonly KnownGroup[] {
    const sizes = this.#sizes.all() as KnownGroup[];
    const groups = this.#groups.all() as { subject: string; name: string }[];
    const isEmpty = (group: { subject: string; name: string }) =>
      !sizes.some((one) => one.subject === group.subject && one.name === group.name);
    return [...sizes, ...groups.filter(isEmpty).map((group) => ({ ...group, size: 0, oldestMs: null }))];
  }
}

/** Stands for the group that has not come yet. */
export const NO_GROUP = "";

/** Never visible again: kept for whoever looks for it, not delivered. */
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
}

export interface Visible {
  readonly rows: readonly VisibleRow[];
  readonly hasMore: boolean;
  /** When the next delayed one is due; null when there is none, or more to read first. */
  readonly nextMs: number | null;
}

export interface FoundMessages {
  readonly groups: readonly KnownGroup[];
  readonly lastSeq: number;
}

export interface KnownGroup {
  readonly subject: string;
  readonly name: string;
  readonly size: number;
  readonly oldestMs: number | null;
}

function valuesOf(row: MessageRow): SqlValue[] {
  const { seq, subject, group, id, packet, attempt, visibleMs, atMs } = row;
  return [seq, subject, group, id, packet, attempt, visibleMs, atMs];
}

/** What a row says, or its bytes when it says nothing that can be read. */
export function contentOf(packet: string | Uint8Array): Content {
  try {
    const text = typeof packet === "string" ? packet : new TextDecoder("utf-8", { fatal: true }).decode(packet);
    return { kind: "packet", packet: JSON.parse(text) as Packet };
  } catch (error) {
    const bytes = typeof packet === "string" ? new TextEncoder().encode(packet) : Uint8Array.from(packet);
    return { kind: "undecodable", bytes, error: String(error) };
  }
}
