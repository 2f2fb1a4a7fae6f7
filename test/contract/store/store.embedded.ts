import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { wallClock } from "../../../src/adapters/node/wall-clock.ts";
import { openStorage } from "../../../src/adapters/sqlite/storage.ts";
import { SqliteStore } from "../../../src/adapters/sqlite/store.ts";
import { isolatedStore } from "../isolated.ts";
import type { StoreSubject } from "./store.contract.ts";

/** A store in a new data directory. A checkpoint starts at `memtableRowsMax` rows. */
export async function openSubject(memtableRowsMax?: number): Promise<StoreSubject> {
  const dir = mkdtempSync(join(tmpdir(), "cordum-store-"));
  const open = async () => {
    const { writer, tables } = await openStorage(dir, { clock: wallClock, log: { write: () => {} }, memtableRowsMax });
    return { store: isolatedStore(new SqliteStore(writer, tables)), close: () => writer.close() };
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
