import fc from "fast-check";
import { expect, test } from "vitest";
import { openFile, sqliteModule } from "../../../src/adapters/sqlite/database.ts";
import { VersionCache } from "../../../src/adapters/sqlite/version-cache.ts";

const sqlite = await sqliteModule();
const table = fc.constantFrom("a", "b");
/** Bytes and halves of characters put the last two into different orders. */
const id = fc
  .array(fc.constantFrom("1", "2", "~", "\uff00", "😀"), { minLength: 1, maxLength: 2 })
  .map((x) => x.join(""));
const write = fc.record({ table, id, number: fc.integer({ min: 0, max: 9 }) });

test("knows what the table has, however much was forgotten since", () => {
  fc.assert(
    fc.property(
      fc.array(write, { maxLength: 6 }),
      fc.array(fc.oneof(fc.tuple(fc.constant("write" as const), write), fc.tuple(fc.constant("ask" as const), write)), {
        maxLength: 60,
      }),
      (earlier, steps) => {
        const db = openFile(sqlite, ":memory:");
        db.exec("create table t (tbl text, id text, number integer, primary key (tbl, id)) without rowid");
        const insert = db.prepare("insert or replace into t values (?, ?, ?)");
        const largest = db.prepare("select max(id) as id from t where tbl = ?");
        const select = db.prepare("select number from t where tbl = ? and id = ?");
        for (const row of earlier) insert.run(row.table, row.id, row.number);
        const known = new VersionCache(largest, select, 3);
        for (const [kind, row] of steps) {
          if (kind === "write") {
            insert.run(row.table, row.id, row.number);
            known.put(row.table, row.id, row.number);
          } else {
            const stands = select.get(row.table, row.id) as { number: number } | undefined;
            expect(known.of(row.table, row.id)).toBe(stands?.number ?? 0);
          }
        }
        db.close();
      },
    ),
    { numRuns: 300 },
  );
});

test("what was written, and what is new, is not looked for", () => {
  const db = openFile(sqlite, ":memory:");
  db.exec("create table t (tbl text, id text, number integer, primary key (tbl, id)) without rowid");
  db.prepare("insert into t values ('a', 'k', 7)").run();
  const select = db.prepare("select number from t where tbl = ? and id = ?");
  const asked: unknown[] = [];
  const watched = {
    ...select,
    get(...of: string[]) {
      asked.push(of[1]);
      return select.get(...of);
    },
  };
  const known = new VersionCache(db.prepare("select max(id) as id from t where tbl = ?"), watched);
  expect([known.of("a", "m"), known.of("a", "k"), known.of("a", "c")]).toEqual([0, 7, 0]);
  known.put("a", "m", 3);
  // Before the largest that is there by now, but beyond the largest that was there: its run is a new one.
  expect([known.of("a", "l"), known.of("a", "m")]).toEqual([0, 3]);
  expect(asked).toEqual(["k", "c"]);
  db.close();
});
