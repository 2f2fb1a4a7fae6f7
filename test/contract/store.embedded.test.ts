import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe } from "vitest";
import { SqliteStore } from "../../src/worlds/sqlite-store.ts";
import { Writer } from "../../src/worlds/sqlite-writer.ts";
import { wallClock } from "../../src/worlds/wall-clock.ts";
import { openLocally } from "../worlds/directory.ts";
import { type StoreSubject, storeContract } from "./store.contract.ts";
import { inOrderProperty } from "./store.property.ts";
import { StoreKit } from "./store.subject.ts";

storeContract("embedded", openSubject);
// Whatever is committed is then on its way into the tables while the next call comes.
storeContract("embedded, always folding", () => openSubject(2));

describe("store, embedded only", () => {
  inOrderProperty(async () => new StoreKit(await openSubject(3)), 120_000);
});

async function openSubject(unfoldedMax?: number): Promise<StoreSubject> {
  const dir = mkdtempSync(join(tmpdir(), "cordum-store-"));
  const open = async () => {
    const writer = new Writer(await openLocally(dir, unfoldedMax), wallClock, { write: () => {} });
    return { store: new SqliteStore(writer), close: () => writer.close() };
  };
  let opened = await open();
  return {
    store: opened.store,
    run: (promise) => promise,
    reopen: async () => {
      await opened.close();
      opened = await open();
      return opened.store;
    },
    close: async () => {
      await opened.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
