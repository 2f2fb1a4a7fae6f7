import { decodePacket, encodePacket } from "../protocol/codec.ts";
import type { Packet } from "../protocol/packet.ts";

/** Encoding of packets on a bus that other processes reach. */
export interface PacketCodec {
  encode(packet: Packet): Uint8Array;
  /**
   * Throws `MalformedError` if the bytes are not a packet, `SignatureError` if its signature is not accepted. `isFirst` is
   * false for bytes that the bus knows to be a redelivery.
   */
  decode(bytes: Uint8Array, subject: string, isFirst: boolean): Packet;
}

/** Without signatures. */
export const UNSIGNED: PacketCodec = { encode: encodePacket, decode: decodePacket };
