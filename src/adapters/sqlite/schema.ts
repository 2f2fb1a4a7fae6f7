/**
 * Migrations of the SQLite schema: step n leads from schema n to schema n + 1. A released step is never edited.
 *
 * - Tables, lists and queues are identified by text. Numeric ids measured no faster and would need garbage collection.
 * - A record has at most one queue place and one due time. Both are columns with partial indexes, so one statement writes
 *   all three.
 * - `records` has row ids: inserts at random keys into a `without rowid` table with long values are slow.
 */
export const MIGRATIONS: readonly string[] = [
  `
  create table records (
    tbl text not null, id text not null, version integer not null, value text not null,
    due_ms integer, queue text, score integer
  );
  create unique index records_id on records (tbl, id);
  create index records_due on records (due_ms, tbl, id) where due_ms is not null;
  create index records_queue on records (tbl, queue, score, id) where queue is not null;

  create table lists (
    tbl text not null, name text not null, score integer not null, id text not null,
    primary key (tbl, name, score, id)
  ) without rowid;

  create table counters (
    grp text not null, name text not null, value integer not null,
    primary key (grp, name)
  ) without rowid;

  create table fences (
    tbl text not null, id text not null, fence integer not null, at_ms integer not null,
    primary key (tbl, id)
  ) without rowid;

  create table outbox (
    id text primary key, at_ms integer not null, seq integer not null, subject text not null, packet text not null
  ) without rowid;
  create index outbox_at on outbox (at_ms, seq);

  create table bus_groups (
    subject text not null, name text not null,
    primary key (subject, name)
  ) without rowid;

  create table messages (
    seq integer primary key, subject text not null, grp text not null, id text not null, packet text not null,
    attempt integer not null, visible_ms integer not null, at_ms integer not null
  );
  create unique index messages_id on messages (subject, grp, id);
  create index messages_visible on messages (subject, grp, visible_ms, seq);

  create table blobs (
    key text primary key, expires_ms integer not null, bytes blob not null
  );
  create index blobs_expires on blobs (expires_ms);

  create table sequences (
    name text primary key, next integer not null
  ) without rowid;
  `,
  `
  create table journal (epoch integer not null);
  insert into journal values (1);
  `,
  // From schema 3 on, record values may contain deltas (`record-text.ts`), which older versions cannot read.
  "-- no table changes",
  // Checksums (`integrity/checksum.ts`). Rows of older schemas get theirs with their next write. `directory` is null until the journal
  // and the manifest of schema 4 exist.
  `
  alter table records add column value_sum integer;
  alter table records add column sum integer;
  alter table lists add column sum integer;
  alter table counters add column sum integer;
  alter table fences add column sum integer;
  alter table outbox add column sum integer;
  alter table bus_groups add column sum integer;
  alter table messages add column sum integer;
  alter table blobs add column sum integer;
  alter table sequences add column sum integer;
  alter table journal add column directory text;
  alter table journal add column sum integer;
  `,
];
