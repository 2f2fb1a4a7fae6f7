/**
 * Payloads too large for a record, by pointer.
 *
 * 1. `put` resolves once the bytes are as durable as a commit; a record that points at a blob is committed after it.
 * 2. `get` of an expired, deleted or unknown key is `null`, never an error.
 * 3. A blob is at most `BLOB_BYTES_MAX`; a larger one is refused before anything is written.
 */
export interface Blobs {
  put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void>;
  get(key: string): Promise<Uint8Array | null>;
  delete(key: string): Promise<void>;
}

export const BLOB_BYTES_MAX = 2 * 1024 * 1024;
