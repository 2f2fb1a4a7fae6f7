import type { Redis } from "ioredis";
import { BLOB_BYTES_MAX, type Blobs } from "../../ports/blobs.ts";
import { failureOf, RedisFailure } from "./errors.ts";

/**
 * Payloads on Redis, under the very names that the wire protocol gives them (`ctx:<jobId>`, `res:<jobId>`), so that
 * workers of others find them. The server itself removes them when their time is over.
 */
export class RedisBlobs implements Blobs {
  readonly #client: Redis;

  constructor(client: Redis) {
    this.#client = client;
  }

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.byteLength > BLOB_BYTES_MAX) {
      throw new RangeError(`blob \`${key}\` has ${bytes.byteLength} bytes: ${BLOB_BYTES_MAX} at most`);
    }
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const reply = await answered(this.#client.set(key, buffer, "PXAT", Math.ceil(expiresAtMs)));
    if (reply !== "OK") throw new RedisFailure("STORE_REFUSED", `redis did not keep blob \`${key}\``);
  }

  async get(key: string): Promise<Uint8Array | null> {
    return answered(this.#client.getBuffer(key));
  }

  async delete(key: string): Promise<void> {
    await answered(this.#client.del(key));
  }
}

async function answered<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw failureOf(error);
  }
}
