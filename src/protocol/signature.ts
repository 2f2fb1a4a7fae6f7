import { MalformedError, Reader } from "./bytes.ts";
import { PACKET_BYTES_MAX } from "./codec.ts";

/**
 * The signature of a packet, which stands in the packet itself: field 14 of its raw bytes.
 *
 * 1. What is signed are the bytes as they are on the wire without field 14, wherever that stands and however often. They
 *    are never encoded anew: another encoder writes other bytes, and fields that nobody here knows are signed too.
 * 2. Of several signatures the last one counts, as of any field that is there twice. An empty one is none.
 * 3. Malformed bytes end in a `MalformedError`. One pass over the top level; a copy only where the signature is neither
 *    the first nor the last field.
 */
export function cutSignature(bytes: Uint8Array): Cut {
  if (bytes.length > PACKET_BYTES_MAX) {
    throw new MalformedError(`${bytes.length} bytes are more than the limit of ${PACKET_BYTES_MAX}`);
  }
  const reader = new Reader(bytes);
  const kept: Uint8Array[] = [];
  let signature: Uint8Array | null = null;
  let from = 0;
  while (reader.pos < reader.end) {
    const start = reader.pos;
    const tag = reader.uint32();
    if (tag >>> 3 !== SIGNATURE_FIELD) {
      if (tag >>> 3 === 0) throw new MalformedError("BusPacket has a field with the number 0");
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
  /** Everything but the signature. */
  readonly signed: Uint8Array;
  readonly signature: Uint8Array | null;
}

/** The bytes with the signature behind them; they must have none. */
export function withSignature(bytes: Uint8Array, signature: Uint8Array): Uint8Array {
  if (signature.length === 0 || signature.length > 0x7f) {
    throw new MalformedError(`a signature of ${signature.length} bytes is none of P-256`);
  }
  return Buffer.concat([bytes, Uint8Array.of((SIGNATURE_FIELD << 3) | 2, signature.length), signature]);
}

/** The names that the wire protocol has for them: 104 and 103. */
export type SignatureCode = "SIGNATURE_MISSING" | "SIGNATURE_INVALID";

/** The packet can be read, but who sent it is not known: it is not taken. */
export class SignatureError extends Error {
  override readonly name = "SignatureError";
  readonly code: SignatureCode;

  constructor(code: SignatureCode, message: string) {
    super(message);
    this.code = code;
  }
}

const SIGNATURE_FIELD = 14;
