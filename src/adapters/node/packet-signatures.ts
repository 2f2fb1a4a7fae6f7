/**
 * Packets that are signed: ECDSA on P-256 over SHA-256, as ASN.1 DER, in field 14.
 *
 * 1. What is verified are the bytes that arrived, never an encoding of what was read in them.
 * 2. The key follows from the sender id. A sender that is listed is known by its own key and by no other; whoever is not
 *    listed can only be one of our own processes, and is known by our key.
 * 3. What we make is signed; what others made goes on as it came, so that our signature is never on their words.
 * 4. A packet whose signature is missing or wrong is counted once. It is logged once a minute for each sender, subject and
 *    reason: anybody can send them, at any rate.
 */
import { type KeyObject, sign, verify } from "node:crypto";
import type { SignatureMode } from "../../config/build.ts";
import type { Log } from "../../ports/log.ts";
import type { Metrics } from "../../ports/metrics.ts";
import { decodePacket, encodePacket } from "../../protocol/codec.ts";
import type { Packet } from "../../protocol/packet.ts";
import { cutSignature, type SignatureCode, SignatureError, withSignature } from "../../protocol/signature.ts";
import type { PacketForm } from "../packet-form.ts";

export interface SignatureOptions {
  readonly mode: SignatureMode;
  /** With which what is made here is signed; null for not at all. */
  readonly key: KeyObject | null;
  /** The public keys of the control plane itself. */
  readonly ours: readonly KeyObject[];
  /** Those of the listed senders, as they are now. */
  readonly senders: () => ReadonlyMap<string, readonly KeyObject[]>;
  readonly log: Log;
  readonly metrics?: Pick<Metrics, "add">;
}

export class SignedForm implements PacketForm {
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
    const packet = decodePacket(bytes);
    const verdict = this.#options.mode === "off" ? UNLOOKED : this.#look(packet, bytes);
    if (verdict.kind === "signed") return { ...packet, origin: { kind: "arrived", bytes, signedBy: verdict.by } };
    if (isFirst) this.#note(packet, subject, verdict);
    if (this.#options.mode === "enforce") throw new SignatureError(verdict.code, verdict.why);
    return { ...packet, origin: { kind: "arrived", bytes, signedBy: null } };
  }

  #look({ senderId }: Packet, bytes: Uint8Array): Verdict {
    const name = `\`${senderId.slice(0, NAME_LENGTH_MAX)}\``;
    try {
      const { signed, signature } = cutSignature(bytes);
      if (signature === null) return missing(`a packet of sender ${name} is not signed; give the sender a key`);
      const keys = this.#options.senders().get(senderId);
      if (keys === undefined) {
        if (isOf(this.#options.ours, signed, signature)) return { kind: "signed", by: null };
        return invalid(`sender ${name} is not known; give its public key as \`cap.senders.<id>.key\``);
      }
      if (isOf(keys, signed, signature)) return { kind: "signed", by: senderId };
      return invalid(`the signature is not that of sender ${name}, or the packet was changed; look at both its keys`);
    } catch (error) {
      return invalid(`the signature of sender ${name} cannot be read: ${(error as Error).message}`);
    }
  }

  #note({ senderId }: Packet, subject: string, { code, why }: Fault): void {
    const { log, metrics, mode } = this.#options;
    const reason = code === "SIGNATURE_MISSING" ? "missing" : "invalid";
    metrics?.add("cordum_bus_signature_failures_total", { subject, reason });
    const about = `${reason} ${subject} ${senderId}`;
    const nowMs = performance.now();
    if (nowMs - (this.#loggedMs.get(about) ?? Number.NEGATIVE_INFINITY) < LOGGED_EVERY_MS) return;
    if (this.#loggedMs.size >= LOGGED_MAX) this.#loggedMs.clear();
    this.#loggedMs.set(about, nowMs);
    const sender = senderId.slice(0, NAME_LENGTH_MAX);
    log.write("warn", `bus_signature_${reason}`, { subject, sender, why, refused: mode === "enforce" });
  }
}

type Verdict = { readonly kind: "signed"; readonly by: string | null } | Fault;

interface Fault {
  readonly kind: "fault";
  readonly code: SignatureCode;
  readonly why: string;
}

const UNLOOKED = { kind: "signed", by: null } as const;

const missing = (why: string): Fault => ({ kind: "fault", code: "SIGNATURE_MISSING", why });
const invalid = (why: string): Fault => ({ kind: "fault", code: "SIGNATURE_INVALID", why });

const isOf = (keys: readonly KeyObject[], signed: Uint8Array, signature: Uint8Array): boolean =>
  keys.some((key) => verify("sha256", signed, { key, dsaEncoding: "der" }, signature));

const NAME_LENGTH_MAX = 128;
const LOGGED_EVERY_MS = 60_000;
const LOGGED_MAX = 1_000;
