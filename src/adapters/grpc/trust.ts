/**
 * How a safety kernel and its callers know each other: a token that both have, certificates, or nothing.
 *
 * 1. Beyond loopback a kernel lets nobody in whom it does not know: without a token and without callers' certificates it
 *    does not listen there.
 * 2. A token never leaves this machine in the clear: a caller does not send it over a line that is not encrypted.
 * 3. On loopback nothing is asked for, so that kernels of others work as they are.
 */
import { hostOf, isLoopback } from "../../core/model/loopback.ts";

/** A certificate, with what it is signed by, and its key. */
export interface KeyPair {
  readonly chain: Buffer;
  readonly key: Buffer;
}

/** What a kernel asks of its callers. */
export interface KernelTrust {
  readonly token: string | null;
  /** Where `ca` is, only callers that show a certificate signed by it are let in. */
  readonly tls: { readonly pair: KeyPair; readonly ca: Buffer | null } | null;
}

/** What a caller asks of the kernel, and shows to it. */
export interface CallerTrust {
  readonly token: string | null;
  readonly tls: { readonly ca: Buffer; readonly pair: KeyPair | null } | null;
}

export const NO_TRUST = { token: null, tls: null } as const satisfies KernelTrust & CallerTrust;

/** The settings do not make a line that can be trusted. `setting` is where to begin. */
export class TrustError extends Error {
  override readonly name = "TrustError";
  readonly setting: string;

  constructor(setting: string, message: string) {
    super(message);
    this.setting = setting;
  }
}

/** Throws where whoever reaches the port could ask. */
export function refuseToListen(host: string, { token, tls }: KernelTrust): void {
  if (isLoopback(host) || token !== null || (tls !== null && tls.ca !== null)) return;
  throw new TrustError(
    "safety.token",
    `will not listen on \`${host}\`: without \`safety.token\` whoever reaches the safety kernel could ask it, so only ` +
      "loopback (127.0.0.1, ::1, localhost) is safe; make a token with `openssl rand -hex 32`, and give it to the " +
      "kernel and to its callers as `CORDUM_SAFETY_TOKEN`",
  );
}

/** Throws where a token would be sent in the clear. */
export function refuseToAsk(address: string, { token, tls }: CallerTrust): void {
  if (isLoopback(hostOf(address)) || token === null || tls !== null) return;
  throw new TrustError(
    "safety.tls.ca",
    `will not send \`safety.token\` to \`${address}\`: the line is not encrypted, and whoever listens would have the ` +
      "token; give the kernel a certificate (`safety.tls.cert`, `safety.tls.key`), and this process who signed it " +
      "(`safety.tls.ca`)",
  );
}

/** Whether what is said on it can be read and changed on the way. */
export function isInTheClear(host: string, { tls }: KernelTrust | CallerTrust): boolean {
  return tls === null && !isLoopback(host);
}
