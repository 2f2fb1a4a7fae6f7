import type { CounterName } from "../../core/model/table.ts";
import type { DueQuery, TakeQuery } from "../../ports/store.ts";
import type { Batch } from "./batch.ts";
import { BlobRows } from "./blob-rows.ts";
import { type MessageRow, MessageRows } from "./bus/rows.ts";
import type { PreparedChange } from "./change.ts";
import { Claims } from "./claims.ts";
import { Commits } from "./commit.ts";
import type { StoreOperations } from "./commit-executor.ts";
import { Counters } from "./counters.ts";
import type { Database } from "./database.ts";
import { type FencePlace, type ListPlace, Records } from "./records.ts";
import { Sequences } from "./sequences.ts";

/**
 * Everything that can be asked of a data directory, by name. Arguments and answers are plain data. After `unfoldedMax` rows it
 * is time for the tables.
 */
export function storeOperations(db: Database, unfoldedMax = UNFOLDED_MAX): StoreOperations {
  const counters = new Counters(db);
  const claims = new Claims();
  const commits = new Commits(db, counters, claims, unfoldedMax);
  const handlers = {
    ...recordHandlers(new Records(db, claims, commits), commits, claims, counters),
    ...messageHandlers(new MessageRows(db)),
    ...blobHandlers(new BlobRows(db)),
    ...sequenceHandlers(new Sequences(db)),
  };
  return { handlers, participants: [commits, counters, claims] };
}

export type Handlers = ReturnType<typeof recordHandlers> &
  ReturnType<typeof messageHandlers> &
  ReturnType<typeof blobHandlers> &
  ReturnType<typeof sequenceHandlers>;

/** What is answered from memory and by lookups in what the journal does not touch. All else needs the tables. */
export const IN_MEMORY: ReadonlySet<keyof Handlers> = new Set([
  "commit",
  "load",
  "untake",
  "counts",
  "total",
  "sent",
  "getBlob",
  "findMessages",
  "visibleMessages",
]);

/**
 * What is asked of whole tables, and can wait until another thread has brought them up to date. A take cannot: those who
 * are to be sent wait for it.
 */
export const QUESTIONS: ReadonlySet<keyof Handlers> = new Set(["list", "due", "unsent"]);

export function isQuestion({ changes, reads }: Batch): boolean {
  return changes.length === 0 && reads.length > 0 && reads.every(([name]) => QUESTIONS.has(name));
}

/** Whether the tables may answer as they were a moment after it was asked: all but what is given to one and to nobody else. */
export function isLenient({ piggybacked, reads }: Batch): boolean {
  return piggybacked.length === 0 && reads.every(([name]) => name === "list");
}

function recordHandlers(records: Records, commits: Commits, claims: Claims, counters: Counters) {
  return {
    commit: (change: PreparedChange) => commits.commit(change),
    load: (table: string, id: string) => records.load(table, id),
    list: (table: string, name: string, isOldestFirst: boolean, after: ListPlace | null, limit: number) =>
      records.list(table, name, isOldestFirst, after, limit),
    take: (table: string, query: TakeQuery) => records.take(table, query),
    untake: (table: string, queue: string, ids: readonly string[]) => claims.untake(table, queue, ids),
    due: (query: DueQuery) => records.due(query),
    counts: (group: string, limit: number) => counters.group(group, limit),
    recount: (counter: CounterName, table: string, lists: readonly string[]) => {
      const off = counters.value(counter) - commits.sizeOf(table, lists);
      if (off !== 0) counters.add(counter, -off);
      return off;
    },
    total: (name: string) => counters.total(name),
    unsent: (untilMs: number, limit: number) => records.unsent(untilMs, limit),
    sent: (messageIds: readonly string[]) => commits.sent(messageIds),
    forgetFences: (untilMs: number, from: FencePlace | null, limit: number) =>
      records.forgetFences(untilMs, from, limit),
  };
}

function messageHandlers(rows: MessageRows) {
  return {
    findMessages: () => rows.found(),
    addMessage: (row: MessageRow) => rows.add(row),
    putMessage: (row: MessageRow) => rows.put(row),
    beginMessage: (seq: number, attempt: number) => rows.begin(seq, attempt),
    deleteMessage: (seq: number) => rows.delete(seq),
    visibleMessages: (subject: string, group: string, nowMs: number, limit: number) =>
      rows.visible(subject, group, nowMs, limit),
    subscribe: (subject: string, group: string, isFirst: boolean) => rows.subscribe(subject, group, isFirst),
  };
}

function blobHandlers(blobs: BlobRows) {
  return {
    putBlob: (key: string, bytes: Uint8Array, expiresMs: number, nowMs: number) => {
      // One comes, up to two go: so there is an end to it, and no put pays for a thousand.
      blobs.removeExpired(nowMs, EXPIRED_PER_PUT);
      blobs.put(key, bytes, expiresMs);
    },
    getBlob: (key: string, nowMs: number) => blobs.get(key, nowMs),
    deleteBlob: (key: string) => blobs.delete(key),
    removeExpiredBlobs: (nowMs: number, limit: number) => blobs.removeExpired(nowMs, limit),
  };
}

function sequenceHandlers(sequences: Sequences) {
  return { reserve: (name: string, block: number) => sequences.reserve(name, block) };
}

/** Bounds how long the tables are busy with all of it: some ten milliseconds. */
const UNFOLDED_MAX = 600;
const EXPIRED_PER_PUT = 2;
