import { Client, credentials, Server, ServerCredentials, type ServiceError } from "@grpc/grpc-js";
import type { PolicyRequest } from "../../../src/core/policy/decision.ts";
import { REQUEST } from "../../core/policy/samples.ts";
import { peerDecode, peerEncode } from "../../protocol/peer.ts";

/** A third-party client: protobufjs on the published `.proto`. With `type` null, `message` is sent as raw bytes. */
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

export interface ThirdPartyHandlers {
  readonly Check: Handler;
  /** The Cordum extension for batched checks. */
  readonly frames?: Handler;
}

/** A third-party kernel: it knows only paths and field numbers. */
export async function openThirdParty({
  Check,
  frames,
}: ThirdPartyHandlers): Promise<{ address: string; server: Server }> {
  const server = new Server();
  const identity = (bytes: Buffer) => bytes;
  const stream = { requestStream: false, responseStream: false } as const;
  const codecs = {
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
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

/** A check with defaults. */
export const request = (topic: string, fields: Partial<PolicyRequest> = {}): PolicyRequest => ({
  ...REQUEST,
  jobId: "j",
  topic,
  ...fields,
});
