import { Client, credentials, Server, ServerCredentials, type ServiceError } from "@grpc/grpc-js";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { REQUEST } from "../../core/policy/samples.ts";
import { peerDecode, peerEncode } from "../../protocol/peer.ts";

/** A client of others: protobufjs on the published `.proto`. `type` null sends the bytes as they are. */
export async function callKernel(
  address: string,
  method: string,
  type: string | null,
  message: object,
): Promise<Record<string, unknown>> {
  const client = new Client(address, credentials.createInsecure());
  const question = type === null ? (message as Buffer) : Buffer.from(peerEncode(type, message));
  const answer = method === "ListSnapshots" ? "ListSnapshotsResponse" : "PolicyCheckResponse";
  try {
    return await new Promise((resolve, reject) =>
      client.makeUnaryRequest(
        `/cordum.agent.v1.SafetyKernel/${method}`,
        (bytes: Buffer) => bytes,
        (bytes) => peerDecode(answer, bytes),
        question,
        (error, value) => (error === null ? resolve(value ?? {}) : reject(error)),
      ),
    );
  } finally {
    client.close();
  }
}

export type Handler = (
  call: { request: Buffer },
  done: (error: ServiceError | null, answer?: Buffer) => void,
) => unknown;

export interface Strangers {
  readonly Check: Handler;
  /** What others do not have. */
  readonly frames?: Handler;
}

/** A kernel of others: it knows paths and field numbers, and nothing of ours. */
export async function openStrangers({ Check, frames }: Strangers): Promise<{ address: string; server: Server }> {
  const server = new Server();
  const asIs = (bytes: Buffer) => bytes;
  const stream = { requestStream: false, responseStream: false } as const;
  const codecs = {
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
  const method = (service: string) => ({ Check: { path: `/cordum.agent.v1.${service}/Check`, ...stream, ...codecs } });
  server.addService(method("SafetyKernel"), { Check: Check as never });
  if (frames) server.addService(method("SafetyKernelFrames"), { Check: frames as never });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return { address: `127.0.0.1:${port}`, server };
}

/** A question that asks for nothing in particular. */
export const request = (topic: string, fields: Partial<PolicyRequest> = {}): PolicyRequest => ({
  ...REQUEST,
  jobId: "j",
  topic,
  ...fields,
});
