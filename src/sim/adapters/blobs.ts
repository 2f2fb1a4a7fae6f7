import { BLOB_BYTES_MAX, type Blobs } from "../../ports/blobs.ts";
import type { Process } from "../process.ts";
import { call, type Network, serverNow } from "./net.ts";

export type BlobMap = Map<string, { readonly bytes: Uint8Array; readonly expiresAtMs: number }>;

/** The blob client of one process. Bytes are copied, as over a network. */
export class SimBlobs implements Blobs {
  readonly #net: Network;
  readonly #blobs: BlobMap;
  readonly #process: Process;

  constructor(net: Network, blobs: BlobMap, process: Process) {
    this.#net = net;
    this.#blobs = blobs;
    this.#process = process;
  }

  async put(key: string, bytes: Uint8Array, expiresAtMs: number): Promise<void> {
    if (bytes.length > BLOB_BYTES_MAX) {
      throw new Error(`blob \`${key}\` has ${bytes.length} bytes; the limit is ${BLOB_BYTES_MAX}`);
    }
    const copy = bytes.slice();
    await this.#call(() => this.#blobs.set(key, { bytes: copy, expiresAtMs }));
  }

  get(key: string): Promise<Uint8Array | null> {
    return this.#call(() => {
      const found = this.#blobs.get(key);
      return found === undefined || found.expiresAtMs <= serverNow(this.#net) ? null : found.bytes.slice();
    });
  }

  async delete(key: string): Promise<void> {
    await this.#call(() => this.#blobs.delete(key));
  }

  #call<T>(effect: () => T): Promise<T> {
    return call(this.#net, this.#process, "store", effect);
  }
}
