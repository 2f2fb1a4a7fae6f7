import { MalformedError, Reader } from "./bytes.ts";
import { PACKET_BYTES_MAX } from "./codec.ts";

/**
 * The signature of a packet: field 14 of its raw bytes.
 *
 * 1. The signature covers the raw bytes without field 14, wherever and however often that field occurs. They are never
 *    re-encoded, because encoders differ and unknown fields are signed too.
 * 2. The last of several signatures counts. An empty signature is none.
 * 3. Malformed bytes throw a `MalformedError`. The function makes one pass over the top level, and copies only if the
 *    signature is neither the first nor the last field.
 */
export function cutSignature(bytes: Uint8Array): Cut {
  if (bytes.length > PACKET_BYTES_MAX) {
    throw new MalformedError(`packet of ${bytes.length} bytes exceeds the limit of ${PACKET_BYTES_MAX}`);
  }
  const reader = new Reader(bytes);
  const kept: Uint8Array[] = [];
  let signature: Uint8Array | null = null;
  let from = 0;
  while (reader.pos < reader.end) {
    const start = reader.pos;
    const tag = reader.uint32();
    if (tag >>> 3 !== SIGNATURE_FIELD) {
      if (tag >>> 3 === 0) throw new MalformedError("BusPacket with field number 0");
      reader.skip(tag & 7);
      continue;
    }
    if ((tag & 7) !== 2) throw new MalformedError(`\`signature\` of BusPacket has wire type ${tag & 7}, expected 2`);
    const outer = reader.enter();
    signature = reader.buf.subarray(reader.pos, reader.end);
    reader.pos = reader.end;
    reader.leave(outer);
    if (start > from) kept.push(reader.buf.subarray(from, start));
    from = reader.pos;
  }
  if (signature === null) return { signed: bytes, signature };
  if (reader.end > from) kept.push(reader.buf.subarray(from, reader.end));
  const [only] = kept;
  return {
    signed: kept.length === 1 && only ? only : Buffer.concat(kept),
    signature: signature.length === 0 ? null : signature,
  };
}

export interface Cut {
  /** The bytes without the signature. */
  readonly signed: Uint8Array;
  readonly signature: Uint8Array | null;
}

/** Appends a signature to bytes that have none. */
export function withSignature(bytes: Uint8Array, signature: Uint8Array): Uint8Array {
  if (signature.length === 0 || signature.length > 0x7f) {
    throw new MalformedError(`invalid length of a P-256 signature: ${signature.length} bytes`);
  }
  return Buffer.concat([bytes, Uint8Array.of((SIGNATURE_FIELD << 3) | 2, signature.length), signature]);
}

/** Error codes 104, 103 and 100 of the wire protocol. */
export type SignatureCode = "SIGNATURE_MISSING" | "SIGNATURE_INVALID";
export type RefusalCode = SignatureCode | "VERSION_MISMATCH";

/** The packet was decoded but is not accepted. */
export class RefusedPacketError extends Error {
  readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** The signature was not accepted. */
export class SignatureError extends RefusedPacketError {
  override readonly name = "SignatureError";
}

export const versionProblem = (version: number): string =>
  `protocol version ${version} is not supported: send packets of version 1`;

/** The packet has another protocol version. */
export class VersionError extends RefusedPacketError {
  override readonly name = "VersionError";

  constructor(version: number) {
    super("VERSION_MISMATCH", versionProblem(version));
  }
}

const SIGNATURE_FIELD = 14;
