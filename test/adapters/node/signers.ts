// Signs packets independently of src/: with node's crypto and a third-party protobuf implementation.
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { peerEncode } from "../../protocol/peer.ts";

export interface Signer {
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
  readonly privatePem: string;
  readonly publicPem: string;
  /** Appends a signature field to the bytes. */
  sign(bytes: Uint8Array): Uint8Array;
}

export function signer(namedCurve = "P-256"): Signer {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve });
  return {
    privateKey,
    publicKey,
    privatePem: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    publicPem: publicKey.export({ type: "spki", format: "pem" }).toString(),
    sign: (bytes) => Buffer.concat([bytes, fieldOf(sign("sha256", bytes, { key: privateKey, dsaEncoding: "der" }))]),
  };
}

export const fieldOf = (signature: Uint8Array): Uint8Array => Buffer.from([0x72, signature.length, ...signature]);

export const submitBytes = (senderId: string, jobId: string, tenantId: string, topic = "t"): Uint8Array =>
  peerEncode("BusPacket", {
    senderId,
    protocolVersion: 1,
    jobRequest: { jobId, topic, tenantId, contextPtr: `redis://ctx:${jobId}` },
  });
