import type { Database, Statement } from "./database.ts";

/** Payloads as rows. All calls run inside a transaction. */
export class BlobRows {
  readonly #put: Statement;
  readonly #get: Statement;
  readonly #delete: Statement;
  readonly #expire: Statement;

  constructor(db: Database) {
    this.#put = db.prepare(
      "insert into blobs (key, expires_ms, bytes) values (?, ?, ?) " +
        "on conflict (key) do update set expires_ms = excluded.expires_ms, bytes = excluded.bytes",
    );
    this.#get = db.prepare("select bytes from blobs where key = ? and expires_ms > ?");
    this.#delete = db.prepare("delete from blobs where key = ?");
    this.#expire = db.prepare(
      "delete from blobs where key in (select key from blobs where expires_ms <= ? order by expires_ms limit ?)",
    );
  }

  put(key: string, bytes: Uint8Array, expiresMs: number): void {
    this.#put.run(key, expiresMs, bytes);
  }

  get(key: string, nowMs: number): Uint8Array | null {
    const row = this.#get.get(key, nowMs) as { bytes: Uint8Array } | undefined;
    return row ? new Uint8Array(row.bytes) : null;
  }

  delete(key: string): void {
    this.#delete.run(key);
  }

  /** Removes expired blobs, so many at most; answers how many there were. */
  removeExpired(nowMs: number, limit: number): number {
    return Number(this.#expire.run(nowMs, limit).changes);
  }
}
