import { BLOB_BYTES_MAX, BlobConflict, type Blobs } from "../../ports/blobs.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Database, Statement } from "./database.ts";
import type { GroupCommit } from "./group-commit.ts";
import { bytesSum, checkSum, rowSum } from "./integrity/checksum.ts";

/** Blobs in the data directory. An expired blob is invisible at once; later puts delete it. */
export class SqliteBlobs implements Blobs {
  readonly #writer: GroupCommit;
  readonly #rows: BlobRows;
  readonly #clock: Clock;

  constructor(writer: GroupCommit, rows: BlobRows, clock: Clock) {
    this.#writer = writer;
    this.#rows = rows;
    this.#clock = clock;
  }

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.byteLength > BLOB_BYTES_MAX) {
      throw new Error(`blob \`${key}\` has ${bytes.byteLength} bytes, the limit is ${BLOB_BYTES_MAX}`);
    }
    const nowMs = this.#clock.now();
    const isStored = await this.#writer.write("tables", () => {
      // Each put deletes up to two expired blobs: expired blobs cannot accumulate, and no put pays for thousands.
      this.#rows.deleteExpired(nowMs, EXPIRED_PER_PUT);
      return this.#rows.put(key, bytes, expiresAtMs, nowMs);
    });
    if (!isStored) throw new BlobConflict(key);
  }

  get(key: string): Promise<Uint8Array | null> {
    const nowMs = this.#clock.now();
    return this.#writer.read("memory", () => this.#rows.get(key, nowMs));
  }

  delete(key: string): Promise<void> {
    return this.#writer.write("tables", () => this.#rows.delete(key));
  }

  /** Deletes at most `limit` expired blobs. Returns their number. */
  deleteExpired(limit: number): Promise<number> {
    const nowMs = this.#clock.now();
    return this.#writer.write("tables", () => this.#rows.deleteExpired(nowMs, limit));
  }
}

const EXPIRED_PER_PUT = 2;

const blobSum = (key: string, bytes: Uint8Array, expiresMs: number): number => rowSum(key, bytesSum(bytes)) + expiresMs;

interface BlobRow {
  readonly expires_ms: number;
  readonly bytes: Uint8Array;
  readonly sum: number | null;
}

/** The SQL of blobs. Writes run inside the caller's transaction. */
export class BlobRows {
  readonly #put: Statement;
  readonly #get: Statement;
  readonly #delete: Statement;
  readonly #deleteExpired: Statement;

  constructor(db: Database) {
    const expires = "iif(blobs.expires_ms > ?4, max(blobs.expires_ms, excluded.expires_ms), excluded.expires_ms)";
    this.#put = db.prepare(
      "insert into blobs (key, expires_ms, bytes, sum) values (?1, ?2, ?3, ?5) " +
        `on conflict (key) do update set bytes = excluded.bytes, expires_ms = ${expires}, ` +
        // The expiry is a term of the sum.
        `sum = excluded.sum - excluded.expires_ms + ${expires} ` +
        "where blobs.expires_ms <= ?4 or blobs.bytes = excluded.bytes",
    );
    this.#get = db.prepare("select expires_ms, bytes, sum from blobs where key = ? and expires_ms > ?");
    this.#delete = db.prepare("delete from blobs where key = ?");
    this.#deleteExpired = db.prepare(
      "delete from blobs where key in (select key from blobs where expires_ms <= ? order by expires_ms limit ?)",
    );
  }

  /** False if the key holds other bytes that have not expired. */
  put(key: string, bytes: Uint8Array, expiresMs: number, nowMs: number): boolean {
    return Number(this.#put.run(key, expiresMs, bytes, nowMs, blobSum(key, bytes, expiresMs)).changes) > 0;
  }

  get(key: string, nowMs: number): Uint8Array | null {
    const row = this.#get.get(key, nowMs) as BlobRow | undefined;
    if (row === undefined) return null;
    const { expires_ms, bytes, sum } = row;
    checkSum(sum, () => blobSum(key, bytes, expires_ms), "blob", key);
    return new Uint8Array(bytes);
  }

  delete(key: string): void {
    this.#delete.run(key);
  }

  deleteExpired(nowMs: number, limit: number): number {
    return Number(this.#deleteExpired.run(nowMs, limit).changes);
  }
}
