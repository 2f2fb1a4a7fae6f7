import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { openDataDirectory } from "../../../src/adapters/sqlite/database.ts";
import { openHere } from "../../../src/adapters/sqlite/link.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { type Link, Writer } from "../../../src/adapters/sqlite/writer.ts";
import { put } from "../../../src/ports/store.ts";
import { changeOf, DOCS, names, T0 } from "../../contract/store/store.subject.ts";

describe("the shipped link to a data directory", () => {
  let dir: string;
  const links: Link[] = [];
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "cordum-link-"));
  });
  afterEach(async () => {
    for (const link of links.splice(0)) await link.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const open = async () => {
    const link = await openHere(dir);
    links.push(link);
    const logged: string[] = [];
    const writer = new Writer(link, wallClock, { write: (_level, event) => void logged.push(event) });
    return { link, writer, store: new SqliteStore(writer), logged };
  };
  const change = (id: string) => changeOf([put(DOCS, id, null, { text: id })]);
  const fail = { code: "STORE_UNAVAILABLE" };

  it("answers many calls at once, each with its own answer, and shows what was written before", async () => {
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

  it("closing waits for what is under way, and gives the directory free", async () => {
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

  it("that another has is refused with the words of the directory", async () => {
    const held = await openDataDirectory(dir);
    await expect(openHere(dir)).rejects.toThrow(`\`${dir}\` is in use by process ${process.pid}`);
    held.close();
    await open();
  });

  it("a bad call is an error of its own: the others are carried out", async () => {
    const { store } = await open();
    const calls = await Promise.allSettled([
      store.list(DOCS, { index: "all", limit: Number.NaN }),
      store.commit(change("a")),
    ]);
    expect(calls.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
    expect(await store.unsent(T0, 1)).toEqual([]);
  });
});
