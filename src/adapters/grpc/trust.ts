/**
 * Authentication between the safety kernel and its clients: a shared token, TLS certificates, or none.
 *
 * 1. Outside loopback a kernel requires a token or client certificates; otherwise it does not listen.
 * 2. A client sends the token outside loopback only over TLS.
 * 3. On loopback authentication is optional, so third-party kernels work unchanged.
 */
import { hostOf, isLoopback } from "../../core/model/loopback.ts";
import { TrustError } from "../node/pem-file.ts";

/** A certificate chain and its private key. */
export interface KeyPair {
  readonly chain: Buffer;
  readonly key: Buffer;
}

/** What a kernel requires of its clients. */
export interface KernelTrust {
  readonly token: string | null;
  /** If `ca` is set, clients need a certificate signed by it. */
  readonly tls: { readonly pair: KeyPair; readonly ca: Buffer | null } | null;
}

/** The client's credentials, and how it verifies the kernel. */
export interface CallerTrust {
  readonly token: string | null;
  readonly tls: { readonly ca: Buffer; readonly pair: KeyPair | null } | null;
}

export const NO_TRUST = { token: null, tls: null } as const satisfies KernelTrust & CallerTrust;

/** Throws if an unauthenticated client could reach the kernel. */
export function checkListenHost(host: string, { token, tls }: KernelTrust): void {
  if (isLoopback(host) || token !== null || (tls !== null && tls.ca !== null)) return;
  throw new TrustError(
    "safety.token",
    `refusing to listen on \`${host}\`: without \`safety.token\` any client could use the safety kernel, so only loopback ` +
      "(127.0.0.1, ::1, localhost) is safe; create a token with `openssl rand -hex 32` and set it as " +
      "`CORDUM_SAFETY_TOKEN` for the kernel and its clients",
  );
}

/** Throws if the token would be sent unencrypted. */
export function checkCallAddress(address: string, { token, tls }: CallerTrust): void {
  if (isLoopback(hostOf(address)) || token === null || tls !== null) return;
  throw new TrustError(
    "safety.tls.ca",
    `refusing to send \`safety.token\` to \`${address}\` unencrypted: set a certificate for the kernel ` +
      "(`safety.tls.cert`, `safety.tls.key`), and its CA for this process (`safety.tls.ca`)",
  );
}

/** True if the connection leaves the machine unencrypted. */
export function isUnencrypted(host: string, { tls }: KernelTrust | CallerTrust): boolean {
  return tls === null && !isLoopback(host);
}
