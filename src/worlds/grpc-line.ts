/**
 * Calls to one gRPC server, as bytes. What they mean is the caller's business; here is only whether an answer came.
 *
 * 1. `silent` means that no answer came: the connection is refused or lost, the call took too long, the other side gave it
 *    up. An answer that is an error is `refused`. Our own shutdown is thrown: it is neither.
 * 2. A server that comes back is found within half a second, whatever happened before: failed connections are tried again
 *    soon, and a connection on which nothing answers any more is replaced rather than waited for.
 */
import { type ChannelOptions, Client, credentials, type ServiceError, status } from "@grpc/grpc-js";

export type Called =
  | { readonly kind: "answered"; readonly bytes: Uint8Array }
  | { readonly kind: "silent"; readonly reason: string }
  | { readonly kind: "refused"; readonly code: status; readonly error: Error };

export class GrpcLine {
  readonly #address: string;
  readonly #options: ChannelOptions;
  #client: Client;
  #silent = 0;
  #isClosed = false;

  constructor(address: string, bytesMax: number) {
    this.#address = address;
    this.#options = {
      ...CHANNEL,
      "grpc.max_receive_message_length": bytesMax,
      "grpc.max_send_message_length": bytesMax,
    };
    this.#client = this.#connect();
  }

  call(path: string, question: Uint8Array, timeoutMs: number): Promise<Called> {
    if (this.#isClosed) return Promise.reject(closed());
    const client = this.#client;
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + timeoutMs;
      client.makeUnaryRequest(path, asBuffer, asIs, question, { deadline }, (error, bytes) => {
        this.#hear(client, error);
        if (error === null && bytes !== undefined) resolve({ kind: "answered", bytes });
        else if (this.#isClosed) reject(closed());
        else if (error === null) reject(new Error(`${this.#address} answered nothing`));
        else resolve(this.#failed(error, timeoutMs));
      });
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#client.close();
  }

  #connect(): Client {
    return new Client(this.#address, credentials.createInsecure(), this.#options);
  }

  /** Any answer at all shows that the connection lives. */
  #hear(client: Client, error: ServiceError | null): void {
    if (client !== this.#client) return;
    this.#silent = error?.code === status.DEADLINE_EXCEEDED ? this.#silent + 1 : 0;
    if (this.#silent < SILENT_MAX || this.#isClosed) return;
    this.#silent = 0;
    this.#client = this.#connect();
    // Calls that are still under way on it end with their own deadlines.
    client.close();
  }

  #failed(error: ServiceError, timeoutMs: number): Called {
    const { code, details } = error;
    const silent = (what: string): Called => ({ kind: "silent", reason: `the kernel ${what}` });
    switch (code) {
      case status.DEADLINE_EXCEEDED:
        return silent(`gave no answer within ${timeoutMs} ms`);
      case status.CANCELLED:
        return silent("gave up the call");
      case status.UNAVAILABLE: {
        const why = /ECONNREFUSED/.test(details) ? "connection refused" : this.#unplaced(details);
        return silent(`cannot be reached: ${why}`);
      }
      default: {
        const message = `the safety kernel refused the check: ${status[code]}: ${details}`;
        return { kind: "refused", code, error: new Error(message, { cause: error }) };
      }
    }
  }

  /** Reasons go onto jobs, which tenants read: where the kernel is, is the operators' business (they have the setting). */
  #unplaced(details: string): string {
    const host = this.#address.replace(/:\d+$/, "");
    return details.replaceAll(host, "…").replace(ADDRESSES, "…").slice(0, REASON_LENGTH_MAX);
  }
}

const ADDRESSES = /\b\d{1,3}(?:\.\d{1,3}){3}\b|\[[0-9a-f:]{2,}\]/gi;
const CHANNEL: ChannelOptions = {
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
  // By default a name is looked up again after half a minute at the earliest; a server may come back elsewhere.
  "grpc.dns_min_time_between_resolutions_ms": 500,
  // Connections are shared between channels of one process unless told otherwise; a fresh one must be fresh.
  "grpc.use_local_subchannel_pool": 1,
};

/** So many calls in a row without any answer: the connection may be dead without having been closed. */
const SILENT_MAX = 3;
const REASON_LENGTH_MAX = 200;

const closed = (): Error => new Error("this process is shutting down: the safety kernel is no longer asked");
const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const asIs = (bytes: Buffer): Buffer => bytes;
