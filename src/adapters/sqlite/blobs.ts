import { BLOB_BYTES_MAX, type Blobs } from "../../ports/blobs.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Writer } from "./writer.ts";

/** Payloads in the data directory. An expired one is invisible at once and removed in passing, a few at a time. */
export class SqliteBlobs implements Blobs {
  readonly #writer: Writer;
  readonly #clock: Clock;

  constructor(writer: Writer, clock: Clock) {
    this.#writer = writer;
    this.#clock = clock;
  }

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.byteLength > BLOB_BYTES_MAX) {
      throw new Error(
        `blob \`${key}\` has ${bytes.byteLength} bytes, more than the ${BLOB_BYTES_MAX} that a blob may have`,
      );
    }
    // A view would travel with all that it is a view of.
    const whole = bytes.byteLength === bytes.buffer.byteLength ? bytes : Uint8Array.from(bytes);
    await this.#writer.change("putBlob", key, whole, expiresAtMs, this.#clock.now());
  }

  get(key: string): Promise<Uint8Array | null> {
    return this.#writer.read("getBlob", key, this.#clock.now());
  }

  async delete(key: string): Promise<void> {
    await this.#writer.change("deleteBlob", key);
  }

  /** Removes expired blobs, so many at most; answers how many there were. */
  removeExpired(limit: number): Promise<number> {
    return this.#writer.change("removeExpiredBlobs", this.#clock.now(), limit);
  }
}
