import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { Writer } from "../../../src/adapters/sqlite/writer.ts";
import { openLocally } from "../../adapters/sqlite/directory.ts";
import type { StoreSubject } from "./store.contract.ts";

/** A store in a data directory of its own; after `unfoldedMax` rows it is time for the tables. */
export async function openSubject(unfoldedMax?: number): Promise<StoreSubject> {
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
