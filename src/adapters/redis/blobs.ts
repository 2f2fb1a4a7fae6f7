import type { Redis } from "ioredis";
import { BLOB_BYTES_MAX, type Blobs } from "../../ports/blobs.ts";
import { failureOf, RedisFailure } from "./errors.ts";

/**
 * Blobs under the keys of the wire protocol (`ctx:<jobId>`, `res:<jobId>`), which third-party workers read. Redis expires
 * them.
 */
export class RedisBlobs implements Blobs {
  readonly #client: Redis;

  constructor(client: Redis) {
    this.#client = client;
  }

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.byteLength > BLOB_BYTES_MAX) {
      throw new RangeError(`blob \`${key}\` has ${bytes.byteLength} bytes, the limit is ${BLOB_BYTES_MAX}`);
    }
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const reply = await translateErrors(this.#client.set(key, buffer, "PXAT", Math.ceil(expiresAtMs)));
    if (reply !== "OK") throw new RedisFailure("STORE_REFUSED", `redis did not store blob \`${key}\``);
  }

  async get(key: string): Promise<Uint8Array | null> {
    return translateErrors(this.#client.getBuffer(key));
  }

  async delete(key: string): Promise<void> {
    await translateErrors(this.#client.del(key));
  }
}

async function translateErrors<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw failureOf(error);
  }
}
