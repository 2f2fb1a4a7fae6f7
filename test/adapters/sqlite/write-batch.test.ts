import { afterEach, expect, test } from "vitest";
import { BatchWriter, RECORD, WriteBatch } from "../../../src/adapters/sqlite/write-batch.ts";
import { TestDirectory } from "./directory.ts";

const directory = new TestDirectory();
afterEach(() => directory.close());

test("a sheet that is written twice leaves what it leaves written once, also of what goes behind", async () => {
  const { db } = await directory.open();
  const tables = new BatchWriter(db);
  const write = (version: number, text: string) => {
    const batch = new WriteBatch();
    batch.add(RECORD, "job", "a", version, text, null, null, null);
    // Whether it was written the first time is not known to whoever lost the thread that did it.
    for (const passages of [batch.statements(), batch.statements()]) tables.write(passages);
  };
  write(1, "1");
  write(3, "\n2\n3");
  expect(db.prepare("select version, value from records").all()).toEqual([{ version: 3, value: "1\n2\n3" }]);
  write(1, "anew");
  expect(db.prepare("select version, value from records").all()).toEqual([{ version: 1, value: "anew" }]);
});
