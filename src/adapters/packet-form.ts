import { decodePacket, encodePacket } from "../protocol/codec.ts";
import type { Packet } from "../protocol/packet.ts";

/** How packets become bytes on a bus that others reach too, and bytes packets again. */
export interface PacketForm {
  encode(packet: Packet): Uint8Array;
  /**
   * Throws a `MalformedError` where there is no packet in the bytes, and a `SignatureError` where it is not taken.
   * `isFirst`: these bytes have not been here before, as far as the bus knows.
   */
  decode(bytes: Uint8Array, subject: string, isFirst: boolean): Packet;
}

/** Signatures are neither made nor looked at. */
export const PLAIN: PacketForm = { encode: encodePacket, decode: decodePacket };
