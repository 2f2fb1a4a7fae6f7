import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { openDataDirectory } from "../../../src/adapters/sqlite/database.ts";
import type { GroupCommit } from "../../../src/adapters/sqlite/group-commit.ts";
import { openStorage } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { put } from "../../../src/ports/store.ts";
import { changeOf, DOCS, names, T0 } from "../../contract/store/store.subject.ts";

describe("storage", () => {
  let dir: string;
  const writers: GroupCommit[] = [];
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "cordum-storage-"));
  });
  afterEach(async () => {
    for (const writer of writers.splice(0)) await writer.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const options = { clock: wallClock, log: { write: () => {} } };
  const open = async () => {
    const { writer, tables } = await openStorage(dir, options);
    writers.push(writer);
    return { writer, store: new SqliteStore(writer, tables) };
  };
  const change = (id: string) => changeOf([put(DOCS, id, null, { text: id })]);
  const fail = { code: "STORE_UNAVAILABLE" };

  it("opens again after counters beyond what a number holds exactly", async () => {
    const { store, writer } = await open();
    for (const id of names("d", 20)) {
      const counters = [{ group: "spent", name: "x", by: 1e15 }];
      await store.commit(changeOf([put(DOCS, id, null, { text: id, counters })]));
    }
    await writer.close();
    const again = await open();
    expect(await again.store.counts("spent", 1)).toEqual(new Map([["x", Number.MAX_SAFE_INTEGER]]));
  });

  it("settles many concurrent calls with their own results, reads after writes", async () => {
    const { store } = await open();
    const ids = names("d", 1_000);
    const commits = ids.map((id, at) => store.commit(at % 10 === 9 ? change(ids[at - 1]!) : change(id)));
    const loads = ids.map((id) => store.load(DOCS, id));
    expect((await Promise.all(commits)).map(({ kind }) => kind)).toEqual(
      ids.map((_, at) => (at % 10 === 9 ? "stale" : "committed")),
    );
    expect((await Promise.all(loads)).map((found) => found?.value.text ?? null)).toEqual(
      ids.map((id, at) => (at % 10 === 9 ? null : id)),
    );
  });

  it("writes calls in flight on close and releases the directory", async () => {
    const { writer, store } = await open();
    const commits = names("d", 200).map((id) => store.commit(change(id)));
    await store.sent(["m"]);
    await writer.close();
    await writer.close();
    expect(new Set((await Promise.all(commits)).map(({ kind }) => kind))).toEqual(new Set(["committed"]));
    await expect(store.load(DOCS, "d-00000")).rejects.toMatchObject(fail);
    const again = await open();
    expect(await again.store.load(DOCS, "d-00199")).toMatchObject({ version: 1 });
  });

  it("rejects a directory that is in use", async () => {
    const held = await openDataDirectory(dir);
    await expect(openStorage(dir, options)).rejects.toThrow(`\`${dir}\` is in use by process ${process.pid}`);
    await held.close();
    await open();
  });

  it("rejects only the call that throws", async () => {
    const { store } = await open();
    const calls = await Promise.allSettled([
      store.list(DOCS, { index: "all", limit: Number.NaN }),
      store.commit(change("a")),
    ]);
    expect(calls.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect(await store.unsent(T0, 1)).toEqual([]);
  });
});
