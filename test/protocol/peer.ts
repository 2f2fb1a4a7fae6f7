import protobuf from "protobufjs";
import { protoText } from "./proto-text.ts";

/** A third-party protobuf implementation on the published `.proto`, as a reference. */
export function peerType(name: string): protobuf.Type {
  return root.lookupType(`cordum.agent.v1.${name}`);
}

export const peerEncode = (name: string, message: object): Uint8Array => {
  const type = peerType(name);
  return type.encode(type.fromObject(message)).finish();
};

/** 64-bit integers as strings, enums as numbers, no defaults. */
export const peerDecode = (name: string, bytes: Uint8Array): Record<string, unknown> => {
  const type = peerType(name);
  return type.toObject(type.decode(bytes), { longs: String, oneofs: false }) as Record<string, unknown>;
};

const root = new protobuf.Root();
const timestamp = protobuf.common.get("google/protobuf/timestamp.proto");
if (timestamp?.nested) root.addJSON(timestamp.nested);
protobuf.parse(protoText(), root, { keepCase: false });
root.resolveAll();
