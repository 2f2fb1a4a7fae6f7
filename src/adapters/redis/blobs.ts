import type { Redis } from "ioredis";
import { BLOB_BYTES_MAX, BlobConflict, type Blobs } from "../../ports/blobs.ts";
import { failureOf, RedisFailure } from "./errors.ts";

/** Blobs as plain strings, which third-party workers and clients read and write. Redis expires them. */
export class RedisBlobs implements Blobs {
  readonly #client: Redis;
  readonly #toServerMs: (atMs: number) => number;

  /** `toServerMs` converts a time of the cluster to the clock of the server, which expires the blobs. */
  constructor(client: Redis, toServerMs: (atMs: number) => number = (atMs) => atMs) {
    this.#client = client;
    this.#toServerMs = toServerMs;
  }

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.byteLength > BLOB_BYTES_MAX) {
      throw new RangeError(`blob \`${key}\` has ${bytes.byteLength} bytes, the limit is ${BLOB_BYTES_MAX}`);
    }
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const untilMs = Math.ceil(this.#toServerMs(expiresAtMs));
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      if ((await translateErrors(this.#client.set(key, buffer, "PXAT", untilMs, "NX"))) === "OK") return;
      const existing = await this.get(key);
      if (existing === null) continue; // Expired or deleted since.
      if (!buffer.equals(existing)) throw new BlobConflict(key);
      await translateErrors(this.#client.eval(EXTEND, 1, key, untilMs));
      return;
    }
    throw new RedisFailure("STORE_REFUSED", `redis did not store blob \`${key}\``);
  }

  async get(key: string): Promise<Uint8Array | null> {
    return translateErrors(this.#client.getBuffer(key));
  }

  async delete(key: string): Promise<void> {
    await translateErrors(this.#client.del(key));
  }
}

/** `PEXPIREAT key ms GT`, which needs Redis 7. A blob without an expiry keeps none. */
const EXTEND = `
local time, left = redis.call('TIME'), redis.call('PTTL', KEYS[1])
local untilMs = tonumber(ARGV[1])
if left >= 0 and time[1] * 1000 + math.floor(time[2] / 1000) + left < untilMs then
  redis.call('PEXPIREAT', KEYS[1], untilMs)
end
`;
const TRIES_MAX = 3;

async function translateErrors<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw failureOf(error);
  }
}
