import fc from "fast-check";
import { expect, test } from "vitest";
import { openFile, sqliteModule } from "../../../src/adapters/sqlite/database.ts";
import { VersionCache } from "../../../src/adapters/sqlite/version-cache.ts";

const sqlite = await sqliteModule();
const table = fc.constantFrom("a", "b");
/** UTF-8 and UTF-16 order the last two differently. */
const id = fc
  .array(fc.constantFrom("1", "2", "~", "\uff00", "😀"), { minLength: 1, maxLength: 2 })
  .map((x) => x.join(""));
const write = fc.record({ table, id, number: fc.integer({ min: 0, max: 9 }) });

test("returns what the table has, also after evictions", () => {
  fc.assert(
    fc.property(
      fc.array(write, { maxLength: 6 }),
      fc.array(
        fc.oneof(fc.tuple(fc.constant("write" as const), write), fc.tuple(fc.constant("read" as const), write)),
        {
          maxLength: 60,
        },
      ),
      (earlier, steps) => {
        const db = openFile(sqlite, ":memory:");
        db.exec("create table t (tbl text, id text, number integer, primary key (tbl, id)) without rowid");
        const insert = db.prepare("insert or replace into t values (?, ?, ?)");
        const largest = db.prepare("select max(id) as id from t where tbl = ?");
        const select = db.prepare("select number from t where tbl = ? and id = ?");
        for (const row of earlier) insert.run(row.table, row.id, row.number);
        const cache = new VersionCache(largest, select, 3);
        for (const [kind, row] of steps) {
          if (kind === "write") {
            insert.run(row.table, row.id, row.number);
            cache.put(row.table, row.id, row.number);
          } else {
            const stored = select.get(row.table, row.id) as { number: number } | undefined;
            expect(cache.get(row.table, row.id)).toBe(stored?.number ?? 0);
          }
        }
        db.close();
      },
    ),
    { numRuns: 300 },
  );
});

test("does not query for cached rows and for ids above the bound", () => {
  const db = openFile(sqlite, ":memory:");
  db.exec("create table t (tbl text, id text, number integer, primary key (tbl, id)) without rowid");
  db.prepare("insert into t values ('a', 'k', 7)").run();
  const select = db.prepare("select number from t where tbl = ? and id = ?");
  const queried: unknown[] = [];
  const tapped = {
    ...select,
    get(...of: string[]) {
      queried.push(of[1]);
      return select.get(...of);
    },
  };
  const cache = new VersionCache(db.prepare("select max(id) as id from t where tbl = ?"), tapped);
  expect([cache.get("a", "m"), cache.get("a", "k"), cache.get("a", "c")]).toEqual([0, 7, 0]);
  cache.put("a", "m", 3);
  // `l` is below the largest id by now, and above the bound from before.
  expect([cache.get("a", "l"), cache.get("a", "m")]).toEqual([0, 3]);
  expect(queried).toEqual(["k", "c"]);
  db.close();
});
