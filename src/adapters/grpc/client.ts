/**
 * Calls to one gRPC server, as bytes. What they mean is the caller's business; here is only whether an answer came.
 *
 * 1. `silent` means that no answer came: the connection is refused or lost, the call took too long, the other side gave it
 *    up, or the two do not know each other. An answer that is an error is `refused`. Our own shutdown is thrown: it is neither.
 * 2. A server that comes back is found within half a second, whatever happened before: failed connections are tried again
 *    soon, and a connection on which nothing answers any more is replaced rather than waited for.
 * 3. A token that is refused and a certificate that is not trusted are mistakes in the settings, and time does not mend
 *    them: they are logged as errors, with what to do, once a minute at most.
 * 4. The token is in no reason, no error and no log line, whatever the other side answers.
 */
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  credentials,
  type Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { hostOf, isLoopback } from "../../core/model/loopback.ts";
import { REDACTED } from "../../core/model/redact.ts";
import type { Log } from "../../ports/log.ts";
import { tokenMetadata } from "./token.ts";
import { type CallerTrust, refuseToAsk } from "./trust.ts";

export type Called =
  | { readonly kind: "answered"; readonly bytes: Uint8Array }
  | { readonly kind: "silent"; readonly reason: string }
  | { readonly kind: "refused"; readonly code: status; readonly error: Error };

export interface GrpcLineOptions {
  /** `host:port`. */
  readonly address: string;
  readonly bytesMax: number;
  readonly trust: CallerTrust;
  readonly log: Log | null;
}

export class GrpcLine {
  readonly #address: string;
  readonly #token: string | null;
  readonly #isEncrypted: boolean;
  readonly #log: Log | null;
  readonly #options: ChannelOptions;
  readonly #credentials: ChannelCredentials;
  readonly #metadata: Metadata;
  #complaint: { readonly event: string; readonly atMs: number } | null = null;
  #client: Client;
  #silent = 0;
  #isClosed = false;

  constructor({ address, bytesMax, trust, log }: GrpcLineOptions) {
    refuseToAsk(address, trust);
    this.#address = address;
    this.#token = trust.token;
    this.#isEncrypted = trust.tls !== null;
    this.#log = log;
    this.#credentials = credentialsOf(trust);
    this.#metadata = tokenMetadata(trust.token);
    this.#options = {
      ...CHANNEL,
      "grpc.max_receive_message_length": bytesMax,
      "grpc.max_send_message_length": bytesMax,
      // What is meant for this machine must not leave it, whatever `http_proxy` says: it may be in the clear.
      ...(isLoopback(hostOf(address)) && { "grpc.enable_http_proxy": 0 }),
    };
    this.#client = this.#connect();
  }

  call(path: string, question: Uint8Array, timeoutMs: number): Promise<Called> {
    if (this.#isClosed) return Promise.reject(closed());
    const client = this.#client;
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + timeoutMs;
      client.makeUnaryRequest(path, asBuffer, asIs, question, this.#metadata, { deadline }, (error, bytes) => {
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
    return new Client(this.#address, this.#credentials, this.#options);
  }

  /** Any answer at all shows that the connection lives. */
  #hear(client: Client, error: ServiceError | null): void {
    if (error === null) this.#complaint = null;
    if (client !== this.#client) return;
    this.#silent = error?.code === status.DEADLINE_EXCEEDED ? this.#silent + 1 : 0;
    if (this.#silent < SILENT_MAX || this.#isClosed) return;
    this.#silent = 0;
    this.#client = this.#connect();
    // Calls that are still under way on it end with their own deadlines.
    client.close();
  }

  #failed(error: ServiceError, timeoutMs: number): Called {
    const { code } = error;
    const details = this.#withoutToken(error.details);
    const silent = (what: string): Called => ({ kind: "silent", reason: `the kernel ${what}` });
    switch (code) {
      case status.DEADLINE_EXCEEDED:
        return silent(`gave no answer within ${timeoutMs} ms`);
      case status.CANCELLED:
        return silent("gave up the call");
      // It has judged nothing, and will judge nothing until somebody mends the settings: jobs wait for that, as they would
      // for a kernel at a wrong address. Thrown, it would use up their tries and end them.
      case status.UNAUTHENTICATED:
        this.#complain("safety_token_refused", details, "give this process the kernel's own `safety.token`");
        return silent("does not know this process: `safety.token` is missing or wrong");
      case status.UNAVAILABLE:
        return silent(`cannot be reached: ${this.#whyUnreached(details)}`);
      default: {
        const message = `the safety kernel refused the check: ${status[code]}: ${details}`;
        const cause = details === error.details ? { cause: error } : {};
        return { kind: "refused", code, error: new Error(message, cause) };
      }
    }
  }

  /** Reasons go onto jobs, which tenants read: where the kernel is, is the operators' business (they have the setting). */
  #whyUnreached(details: string): string {
    if (/ECONNREFUSED/.test(details)) return "connection refused";
    if (this.#isEncrypted && UNTRUSTED.test(details)) {
      const advice = "look at `safety.tls.*` here, and at the kernel's certificate";
      this.#complain("safety_kernel_not_trusted", details, advice);
      return "no connection that both sides trust (`safety.tls.*`)";
    }
    if (!this.#isEncrypted && CLOSED_AT_ONCE.test(details)) {
      return "it closed the connection at once; if it speaks TLS, this process needs `safety.tls.ca`";
    }
    const host = hostOf(this.#address);
    return details.replaceAll(host, "…").replace(ADDRESSES, "…").slice(0, REASON_LENGTH_MAX);
  }

  #complain(event: string, why: string, advice: string): void {
    const atMs = Date.now();
    const last = this.#complaint;
    if (last?.event === event && Math.abs(atMs - last.atMs) < COMPLAIN_MS) return;
    this.#complaint = { event, atMs };
    const still = "no verdict can be had meanwhile; jobs wait";
    const short = why.replace(WRAPPING, "").trim().slice(0, REASON_LENGTH_MAX);
    this.#log?.write("error", event, { address: this.#address, why: short, advice, still });
  }

  #withoutToken(text: string): string {
    return this.#token === null ? text : text.replaceAll(this.#token, REDACTED);
  }
}

/** Before it said anything that belongs to the protocol. */
const CLOSED_AT_ONCE = /Last error: Failed to connect/;
const WRAPPING = /^No connection established\. Last error: (?:Error: )?| ?Resolution note: *$/g;
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
const COMPLAIN_MS = 60_000;
/** As the TLS of Node says it, in codes and in words. */
const UNTRUSTED = /certificate|altname|CERT_|\bSSL\b|\bTLS\b|EPROTO|self.signed/i;

function credentialsOf({ tls }: CallerTrust): ChannelCredentials {
  if (tls === null) return credentials.createInsecure();
  const { ca, pair } = tls;
  // Said, since an environment variable of Node can switch it off otherwise.
  const verify = { rejectUnauthorized: true };
  return credentials.createSsl(ca, pair?.key ?? null, pair?.chain ?? null, verify);
}

const closed = (): Error => new Error("this process is shutting down: the safety kernel is no longer asked");
const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const asIs = (bytes: Buffer): Buffer => bytes;
