import { decodePacket, encodePacket } from "../protocol/codec.ts";
import type { Packet } from "../protocol/packet.ts";
import { VersionError } from "../protocol/signature.ts";

/** Encoding of packets on a bus that other processes reach. */
export interface PacketCodec {
  encode(packet: Packet): Uint8Array;
  /**
   * Throws `MalformedError` if the bytes are not a packet, `SignatureError` if its signature is not accepted, `VersionError`
   * if it has another protocol version. `isFirst` is false for bytes that the bus knows to be a redelivery.
   */
  decode(bytes: Uint8Array, subject: string, isFirst: boolean): Packet;
}

/** Without signatures. */
export const UNSIGNED: PacketCodec = { encode: encodePacket, decode: decodeSupported };

/** Decodes a packet of the supported version. */
export function decodeSupported(bytes: Uint8Array): Packet {
  const packet = decodePacket(bytes);
  if (packet.otherVersion !== undefined) throw new VersionError(packet.otherVersion);
  return packet;
}
