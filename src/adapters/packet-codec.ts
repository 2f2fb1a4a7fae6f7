import { decodePacket, encodePacket } from "../protocol/codec.ts";
import type { Packet, PacketBody } from "../protocol/packet.ts";
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

/**
 * Decodes a packet of the supported version. Handshakes and heartbeats of other versions are returned too: the registry
 * must know their workers to send them no jobs. So are results, whose jobs end with the reason.
 */
export function decodeSupported(bytes: Uint8Array): Packet {
  const packet = decodePacket(bytes);
  if (packet.otherVersion !== undefined && !OF_ANY_VERSION.has(packet.body.kind)) {
    throw new VersionError(packet.otherVersion);
  }
  return packet;
}

const OF_ANY_VERSION: ReadonlySet<PacketBody["kind"]> = new Set(["handshake", "heartbeat", "job_result"] as const);
