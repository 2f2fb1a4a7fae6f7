/**
 * Payloads that are too large for a record, stored by key.
 *
 * 1. `put` resolves once the blob is as durable as a commit. A record that refers to a blob is committed after it.
 * 2. `put` never replaces bytes. If the key holds the same bytes, only a later expiry is adopted; if it holds others, `put`
 *    rejects with `BlobConflict` and changes nothing.
 * 3. `get` returns `null` for an expired, deleted or unknown key.
 * 4. `put` rejects a blob larger than `BLOB_BYTES_MAX` before it writes anything.
 */
export interface Blobs {
  put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void>;
  get(key: string): Promise<Uint8Array | null>;
  delete(key: string): Promise<void>;
}

export class BlobConflict extends Error {
  override readonly name = "BlobConflict";

  constructor(key: string) {
    super(`blob \`${key}\` exists with other bytes`);
  }
}

export const BLOB_BYTES_MAX = 2 * 1024 * 1024;
