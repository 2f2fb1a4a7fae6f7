import { BLOB_BYTES_MAX, type Blobs } from "../ports/blobs.ts";
import type { Clock } from "../ports/clock.ts";
import type { Database, Statement } from "./sqlite.ts";
import type { Writer } from "./sqlite-writer.ts";

/** Payloads in the data directory. An expired one is invisible at once and removed in passing, a few at a time. */
export class SqliteBlobs implements Blobs {
  readonly #writer: Writer;
  readonly #clock: Clock;
  readonly #put: Statement;
  readonly #get: Statement;
  readonly #delete: Statement;
  readonly #expire: Statement;

  constructor(db: Database, writer: Writer, clock: Clock) {
    this.#writer = writer;
    this.#clock = clock;
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

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.byteLength > BLOB_BYTES_MAX) {
      throw new Error(
        `blob \`${key}\` has ${bytes.byteLength} bytes, more than the ${BLOB_BYTES_MAX} that a blob may have`,
      );
    }
    await this.#writer.change(() => {
      // One comes, up to two go: so there is an end to it, and no put pays for a thousand.
      this.#expire.run(this.#clock.now(), EXPIRED_PER_PUT);
      this.#put.run(key, expiresAtMs, bytes);
    });
  }

  get(key: string): Promise<Uint8Array | null> {
    return this.#writer.read(() => {
      const row = this.#get.get(key, this.#clock.now()) as { bytes: Uint8Array } | undefined;
      return row ? new Uint8Array(row.bytes) : null;
    });
  }

  async delete(key: string): Promise<void> {
    await this.#writer.change(() => {
      this.#delete.run(key);
    });
  }

  /** Removes expired blobs, so many at most; answers how many there were. */
  removeExpired(limit: number): Promise<number> {
    return this.#writer.change(() => Number(this.#expire.run(this.#clock.now(), limit).changes));
  }
}

const EXPIRED_PER_PUT = 2;
