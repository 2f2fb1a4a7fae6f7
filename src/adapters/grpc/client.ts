/**
 * Unary gRPC calls to one server, as bytes.
 *
 * 1. `silent`: no response (connection refused or lost, timeout, cancelled) or no authentication. A response with an error
 *    status is `refused`. A shutdown of this process is thrown.
 * 2. A server that returns is reached within half a second: reconnects have a short backoff, and a connection with
 *    repeated timeouts is replaced.
 * 3. A rejected token or an untrusted certificate is a configuration error: it is logged as an error with a fix, once a
 *    minute at most.
 * 4. The token appears in no reason, error or log line, whatever the server responds.
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
import { type CallerTrust, checkCallAddress } from "./trust.ts";

export type Called =
  | { readonly kind: "answered"; readonly bytes: Uint8Array }
  | { readonly kind: "silent"; readonly reason: string }
  | { readonly kind: "refused"; readonly code: status; readonly error: Error };

export interface GrpcClientOptions {
  /** `host:port`. */
  readonly address: string;
  readonly bytesMax: number;
  readonly trust: CallerTrust;
  readonly log: Log | null;
}

export class GrpcClient {
  readonly #address: string;
  readonly #token: string | null;
  readonly #isEncrypted: boolean;
  readonly #log: Log | null;
  readonly #options: ChannelOptions;
  readonly #credentials: ChannelCredentials;
  readonly #metadata: Metadata;
  #lastLogged: { readonly event: string; readonly atMs: number } | null = null;
  #client: Client;
  #silent = 0;
  #isClosed = false;

  constructor({ address, bytesMax, trust, log }: GrpcClientOptions) {
    checkCallAddress(address, trust);
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
      // Loopback traffic may be unencrypted: never send it to an `http_proxy`.
      ...(isLoopback(hostOf(address)) && { "grpc.enable_http_proxy": 0 }),
    };
    this.#client = this.#connect();
  }

  call(path: string, request: Uint8Array, timeoutMs: number): Promise<Called> {
    if (this.#isClosed) return Promise.reject(closed());
    const client = this.#client;
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + timeoutMs;
      client.makeUnaryRequest(path, asBuffer, identity, request, this.#metadata, { deadline }, (error, bytes) => {
        this.#trackResponse(client, error);
        if (error === null && bytes !== undefined) resolve({ kind: "answered", bytes });
        else if (this.#isClosed) reject(closed());
        else if (error === null) reject(new Error(`empty response from ${this.#address}`));
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

  /** Replaces the connection after repeated timeouts. Any other response proves that it is alive. */
  #trackResponse(client: Client, error: ServiceError | null): void {
    if (error === null) this.#lastLogged = null;
    if (client !== this.#client) return;
    this.#silent = error?.code === status.DEADLINE_EXCEEDED ? this.#silent + 1 : 0;
    if (this.#silent < SILENT_MAX || this.#isClosed) return;
    this.#silent = 0;
    this.#client = this.#connect();
    // Pending calls on the old connection end with their deadlines.
    client.close();
  }

  #failed(error: ServiceError, timeoutMs: number): Called {
    const { code } = error;
    const details = this.#withoutToken(error.details);
    const silent = (reason: string): Called => ({ kind: "silent", reason });
    switch (code) {
      case status.DEADLINE_EXCEEDED:
        return silent(`no response from the kernel within ${timeoutMs} ms`);
      case status.CANCELLED:
        return silent("the kernel cancelled the call");
      // Jobs wait until the settings are fixed. A thrown error would use up their attempts.
      case status.UNAUTHENTICATED:
        this.#logError("safety_token_refused", details, "set the `safety.token` of the kernel for this process");
        return silent("the kernel rejected this process: `safety.token` is missing or wrong");
      case status.UNAVAILABLE:
        return silent(`kernel unreachable: ${this.#connectError(details)}`);
      default: {
        const message = `the safety kernel rejected the check: ${status[code]}: ${details}`;
        const cause = details === error.details ? { cause: error } : {};
        return { kind: "refused", code, error: new Error(message, cause) };
      }
    }
  }

  /** Reasons are stored on jobs, which tenants read: addresses are removed. */
  #connectError(details: string): string {
    if (/ECONNREFUSED/.test(details)) return "connection refused";
    if (this.#isEncrypted && UNTRUSTED.test(details)) {
      const fix = "check `safety.tls.*` of this process and the certificate of the kernel";
      this.#logError("safety_kernel_not_trusted", details, fix);
      return "TLS verification failed (`safety.tls.*`)";
    }
    if (!this.#isEncrypted && CLOSED_DURING_SETUP.test(details)) {
      return "connection closed during setup; if the kernel uses TLS, set `safety.tls.ca` for this process";
    }
    const host = hostOf(this.#address);
    return details.replaceAll(host, "…").replace(ADDRESSES, "…").slice(0, REASON_LENGTH_MAX);
  }

  #logError(event: string, details: string, fix: string): void {
    const atMs = Date.now();
    const last = this.#lastLogged;
    if (last?.event === event && Math.abs(atMs - last.atMs) < LOG_EVERY_MS) return;
    this.#lastLogged = { event, atMs };
    const effect = "jobs wait until the safety kernel can be used";
    const error = details.replace(WRAPPING, "").trim().slice(0, REASON_LENGTH_MAX);
    this.#log?.write("error", event, { address: this.#address, error, fix, effect });
  }

  #withoutToken(text: string): string {
    return this.#token === null ? text : text.replaceAll(this.#token, REDACTED);
  }
}

/** The connection ended before any protocol message. */
const CLOSED_DURING_SETUP = /Last error: Failed to connect/;
const WRAPPING = /^No connection established\. Last error: (?:Error: )?| ?Resolution note: *$/g;
const ADDRESSES = /\b\d{1,3}(?:\.\d{1,3}){3}\b|\[[0-9a-f:]{2,}\]/gi;
const CHANNEL: ChannelOptions = {
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 500,
  // The default of 30 s would delay the discovery of a server that moved.
  "grpc.dns_min_time_between_resolutions_ms": 500,
  // Channels of a process share connections by default; a replacement needs a new one.
  "grpc.use_local_subchannel_pool": 1,
};

/** Timeouts in a row after which a connection is considered dead. */
const SILENT_MAX = 3;
const REASON_LENGTH_MAX = 200;
const LOG_EVERY_MS = 60_000;
/** Codes and messages of Node's TLS errors. */
const UNTRUSTED = /certificate|altname|CERT_|\bSSL\b|\bTLS\b|EPROTO|self.signed/i;

function credentialsOf({ tls }: CallerTrust): ChannelCredentials {
  if (tls === null) return credentials.createInsecure();
  const { ca, pair } = tls;
  // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED could disable verification.
  const verify = { rejectUnauthorized: true };
  return credentials.createSsl(ca, pair?.key ?? null, pair?.chain ?? null, verify);
}

const closed = (): Error => new Error("safety client closed: the process is shutting down");
const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const identity = (bytes: Buffer): Buffer => bytes;
