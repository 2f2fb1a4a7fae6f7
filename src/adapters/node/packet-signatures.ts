/**
 * Signed packets: ECDSA on P-256 over SHA-256, ASN.1 DER, in field 14.
 *
 * 1. Verification covers the received bytes, not a re-encoding.
 * 2. The sender id selects the key. A configured sender is verified with its own keys only; any other sender must be a
 *    control plane process and is verified with the keys of the control plane.
 * 3. Packets created here are signed. Forwarded packets keep their original bytes.
 * 4. A missing or invalid signature is counted once per packet, and logged once a minute per sender, subject and reason.
 */
import { type KeyObject, sign, verify } from "node:crypto";
import type { SignatureMode } from "../../config/build.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import { encodePacket } from "../../protocol/codec.ts";
import type { Packet } from "../../protocol/packet.ts";
import { cutSignature, type SignatureCode, SignatureError, withSignature } from "../../protocol/signature.ts";
import { decodeSupported, type PacketCodec } from "../packet-codec.ts";

export interface SignatureOptions {
  readonly mode: SignatureMode;
  /** Signs packets created here; null disables signing. */
  readonly key: KeyObject | null;
  /** The public keys of the control plane itself. */
  readonly ours: readonly KeyObject[];
  /** Current public keys of the configured senders. */
  readonly senders: () => ReadonlyMap<string, readonly KeyObject[]>;
  readonly log: Log;
  readonly metrics?: Pick<Metrics, "add">;
}

export class SignedCodec implements PacketCodec {
  readonly #options: SignatureOptions;
  readonly #loggedMs = new Map<string, number>();

  constructor(options: SignatureOptions) {
    this.#options = options;
  }

  encode(packet: Packet): Uint8Array {
    const bytes = encodePacket(packet);
    const { key } = this.#options;
    if (key === null || packet.origin !== undefined) return bytes;
    const { signed } = cutSignature(bytes);
    return withSignature(signed, sign("sha256", signed, { key, dsaEncoding: "der" }));
  }

  decode(bytes: Uint8Array, subject: string, isFirst: boolean): Packet {
    const packet = decodeSupported(bytes);
    const verdict = this.#options.mode === "off" ? NOT_VERIFIED : this.#verify(packet, bytes);
    if (verdict.kind === "signed") return { ...packet, origin: { kind: "arrived", bytes, signedBy: verdict.by } };
    if (isFirst) this.#recordFailure(packet, subject, verdict);
    if (this.#options.mode === "enforce") throw new SignatureError(verdict.code, verdict.detail);
    return { ...packet, origin: { kind: "arrived", bytes, signedBy: null } };
  }

  #verify({ senderId }: Packet, bytes: Uint8Array): Verdict {
    const name = `\`${senderId.slice(0, NAME_LENGTH_MAX)}\``;
    try {
      const { signed, signature } = cutSignature(bytes);
      if (signature === null) return missing(`packet of sender ${name} is not signed: configure a key for the sender`);
      const keys = this.#options.senders().get(senderId);
      if (keys === undefined) {
        if (isOf(this.#options.ours, signed, signature)) return { kind: "signed", by: null };
        return invalid(`unknown sender ${name}: set its public key in \`cap.senders.<id>.key\``);
      }
      if (isOf(keys, signed, signature)) return { kind: "signed", by: senderId };
      return invalid(`the signature does not match sender ${name}: check its key pair`);
    } catch (error) {
      return invalid(`invalid signature of sender ${name}: ${(error as Error).message}`);
    }
  }

  #recordFailure({ senderId }: Packet, subject: string, { code, detail }: Fault): void {
    const { log, metrics, mode } = this.#options;
    const reason = code === "SIGNATURE_MISSING" ? "missing" : "invalid";
    metrics?.add("cordum_bus_signature_failures_total", { subject, reason });
    const about = `${reason} ${subject} ${senderId}`;
    const nowMs = performance.now();
    if (nowMs - (this.#loggedMs.get(about) ?? Number.NEGATIVE_INFINITY) < LOGGED_EVERY_MS) return;
    if (this.#loggedMs.size >= LOGGED_MAX) this.#loggedMs.clear();
    this.#loggedMs.set(about, nowMs);
    const sender = senderId.slice(0, NAME_LENGTH_MAX);
    log.write("warn", `bus_signature_${reason}`, { subject, sender, error: detail, refused: mode === "enforce" });
  }
}

type Verdict = { readonly kind: "signed"; readonly by: string | null } | Fault;

interface Fault {
  readonly kind: "fault";
  readonly code: SignatureCode;
  readonly detail: string;
}

const NOT_VERIFIED = { kind: "signed", by: null } as const;

const missing = (detail: string): Fault => ({ kind: "fault", code: "SIGNATURE_MISSING", detail });
const invalid = (detail: string): Fault => ({ kind: "fault", code: "SIGNATURE_INVALID", detail });

const isOf = (keys: readonly KeyObject[], signed: Uint8Array, signature: Uint8Array): boolean =>
  keys.some((key) => verify("sha256", signed, { key, dsaEncoding: "der" }, signature));

const NAME_LENGTH_MAX = 128;
const LOGGED_EVERY_MS = 60_000;
const LOGGED_MAX = 1_000;
