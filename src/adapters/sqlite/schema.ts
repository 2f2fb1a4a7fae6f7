/**
 * The tables of the data directory, as a list of steps: step n leads from schema n to schema n + 1. A released step is
 * never edited; a change is a new step.
 *
 * Names are text: a dictionary of numbers would be faster by less than the noise of the measurement, and would have to be
 * cleaned up. A record has one queue place and one due time at most, so they are columns of it with partial indexes:
 * one statement writes all three. Records have row ids because their values are long: a key tree with the values inside
 * it is slow to insert into when ids are random.
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
  // The values of records may have further lines, of what was changed since: a program that does not know them must not try.
  "-- no table is other than before",
];
