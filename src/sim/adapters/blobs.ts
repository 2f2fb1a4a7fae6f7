import { BLOB_BYTES_MAX, type Blobs } from "../../ports/blobs.ts";
import type { Process } from "../process.ts";
import { call, type Network, serverNow } from "./net.ts";

export type BlobMap = Map<string, { readonly bytes: Uint8Array; readonly expiresAtMs: number }>;

/** Blobs in the simulated store; the bytes are copied, as a real wire would. */
export class SimBlobs implements Blobs {
  readonly #net: Network;
  readonly #shelf: BlobMap;
  readonly #process: Process;

  constructor(net: Network, diskQueue: BlobMap, process: Process) {
    this.#net = net;
    this.#shelf = diskQueue;
    this.#process = process;
  }

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.length > BLOB_BYTES_MAX) {
      throw new Error(`blob \`${key}\` has ${bytes.length} bytes; at most ${BLOB_BYTES_MAX} are kept`);
    }
    const copy = bytes.slice();
    await this.#ask(() => this.#shelf.set(key, { bytes: copy, expiresAtMs }));
  }

  get(key: string): Promise<Uint8Array | null> {
    return this.#ask(() => {
      const found = this.#shelf.get(key);
      return found === undefined || found.expiresAtMs <= serverNow(this.#net) ? null : found.bytes.slice();
    });
  }

  async delete(key: string): Promise<void> {
    await this.#ask(() => this.#shelf.delete(key));
  }

  #ask<T>(effect: () => T): Promise<T> {
    return call(this.#net, this.#process, "store", effect);
  }
}
