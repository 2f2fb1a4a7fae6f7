import { BLOB_BYTES_MAX, BlobConflict, type Blobs } from "../../ports/blobs.ts";
import type { Change, Committed, Store } from "../../ports/store.ts";
import type { Process } from "../process.ts";
import type { MemoryStore } from "./memory-store.ts";
import { call, type Network, serverNow } from "./net.ts";

/** Called at the instant of the write, before the reply, so that a fault can be injected there. */
export type CommitHook = (by: Process, change: Change, committed: Committed) => void;

/** The store client of one process. A change is applied at one instant between the call and its reply. */
export function simStore(net: Network, server: MemoryStore, process: Process, onCommit: CommitHook): Store {
  const onServer = <T>(effect: () => T): Promise<T> => call(net, process, "store", effect);
  return {
    load: (table, id) => onServer(() => server.load(table, id)),
    commit: (change) =>
      onServer(() => {
        const committed = server.commit(change);
        onCommit(process, change, committed);
        return committed;
      }),
    list: (table, query) => onServer(() => server.list(table, query)),
    count: (table, query) => onServer(() => server.countIn(table, query)),
    take: (table, query) => onServer(() => server.take(table, query)),
    untake: (table, queue, ids) => onServer(() => server.untake(table, queue, ids)),
    due: (query) => onServer(() => server.due(query)),
    counts: (group, limit) => onServer(() => server.counts(group, limit)),
    recount: (counter, table, lists) => onServer(() => server.recount(counter, table, lists)),
    unsent: (untilMs, limit) => onServer(() => server.unsent(untilMs, limit)),
    sent: (messageIds) => onServer(() => server.sent(messageIds)),
    total: (name) => onServer(() => server.total(name)),
  };
}

export type BlobMap = Map<string, { readonly bytes: Uint8Array; readonly expiresAtMs: number }>;

/** The blob client of one process. Bytes are copied, as over a network. */
export function simBlobs(net: Network, blobs: BlobMap, process: Process): Blobs {
  const onServer = <T>(effect: () => T): Promise<T> => call(net, process, "store", effect);
  return {
    put: async (key, bytes, expiresAtMs) => {
      if (bytes.length > BLOB_BYTES_MAX) {
        throw new Error(`blob \`${key}\` has ${bytes.length} bytes; the limit is ${BLOB_BYTES_MAX}`);
      }
      const copy = bytes.slice();
      await onServer(() => {
        const known = blobs.get(key);
        const existing = known !== undefined && known.expiresAtMs > serverNow(net) ? known : null;
        if (existing !== null && !isEqual(existing.bytes, copy)) throw new BlobConflict(key);
        blobs.set(key, { bytes: copy, expiresAtMs: Math.max(existing?.expiresAtMs ?? 0, expiresAtMs) });
      });
    },
    get: (key) =>
      onServer(() => {
        const found = blobs.get(key);
        return found === undefined || found.expiresAtMs <= serverNow(net) ? null : found.bytes.slice();
      }),
    delete: async (key) => {
      await onServer(() => blobs.delete(key));
    },
  };
}

const isEqual = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index]);
