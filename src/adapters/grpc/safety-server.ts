/**
 * The safety kernel over gRPC: CAP's service `SafetyKernel`, for control planes in other processes, ours or others'.
 *
 * 1. Every answer is made by one snapshot, the one in force when the question was read.
 * 2. A question that cannot be read is INVALID_ARGUMENT, never a decision. A bug in here is INTERNAL.
 * 3. What a caller can make it hold is bounded: the size of a message, the calls under way.
 * 4. Who may ask is as `grpc-trust.ts` says; beyond loopback nobody may whom it does not know.
 * 5. `stop` takes nothing new and lets what is under way finish, for a while.
 */
import {
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type ServiceError,
  status,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { explain } from "../../core/policy/explain.ts";
import type { LiveKernel } from "../../core/policy/kernel.ts";
import type { Log } from "../../ports/log.ts";
import { MalformedError } from "../../protocol/bytes.ts";
import { decodeCheck, encodeDecision, encodeSnapshots, SAFETY_BYTES_MAX } from "../../protocol/safety.ts";
import { answerChecks } from "../../protocol/safety-frame.ts";
import { FRAME_PATH, SAFETY_SERVICE, type SafetyMethod, safetyPath } from "../../protocol/safety-schema.ts";
import { tokenCheck } from "./token.ts";
import { type KernelTrust, NO_TRUST, refuseToListen } from "./trust.ts";

export interface SafetyServerOptions {
  readonly kernel: LiveKernel;
  readonly log: Log;
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Nobody is asked who they are when not given: then on loopback only. */
  readonly trust?: KernelTrust;
  /** The snapshots that were ever in force, newest first; the one in force when not given. */
  readonly snapshots?: () => Promise<readonly string[]>;
  /** How long `stop` waits for calls under way. */
  readonly stopMsMax?: number;
}

export interface SafetyServer {
  /** Such as `127.0.0.1:50051`. */
  readonly address: string;
  stop(): Promise<void>;
}

export async function startSafetyServer(options: SafetyServerOptions): Promise<SafetyServer> {
  const { kernel, log, host, trust = NO_TRUST } = options;
  refuseToListen(host, trust);
  const server = new Server({
    "grpc.max_receive_message_length": SAFETY_BYTES_MAX,
    "grpc.max_send_message_length": SAFETY_BYTES_MAX,
    "grpc.max_concurrent_streams": STREAMS_MAX,
    // A caller that is gone without a word leaves a connection behind; it is asked now and then.
    "grpc.keepalive_time_ms": 60_000,
    "grpc.keepalive_timeout_ms": 20_000,
    ...(trust.token !== null && { interceptors: [tokenCheck(trust.token, log)] }),
  });
  server.addService(DEFINITION, implementation(options));
  const many: Answer = (bytes) => answerChecks(bytes, (check) => encodeDecision(kernel.decide(decodeCheck(check))));
  server.addService(FRAMES, { Check: handler("CheckFrame", many, log) });
  const target = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  const port = await bind(server, `${target}:${options.port}`, credentialsOf(trust));
  return { address: `${target}:${port}`, stop: () => stop(server, options.stopMsMax ?? STOP_MS_MAX) };
}

/** Per connection. Each is answered in the tick in which it was read, so few are ever under way. */
const STREAMS_MAX = 1_000;
const STOP_MS_MAX = 5_000;

type Answer = (bytes: Buffer) => Uint8Array | Promise<Uint8Array>;

function implementation({ kernel, log, snapshots }: SafetyServerOptions): UntypedServiceImplementation {
  const decide: Answer = (bytes) => encodeDecision(kernel.decide(decodeCheck(bytes)));
  const answers: Readonly<Record<SafetyMethod, Answer>> = {
    Check: decide,
    Evaluate: decide,
    // Nothing is done about any decision in here, so what would be decided is what is decided.
    Simulate: decide,
    Explain(bytes) {
      const { decision, tried, omitted } = explain(kernel.inForce.snapshot, decodeCheck(bytes));
      return encodeDecision(decision, { tried, omitted });
    },
    ListSnapshots: async () => encodeSnapshots((await snapshots?.()) ?? [kernel.inForce.snapshot.hash]),
  };
  return Object.fromEntries(Object.entries(answers).map(([name, answer]) => [name, handler(name, answer, log)]));
}

function handler(method: string, answer: Answer, log: Log): handleUnaryCall<Buffer, Buffer> {
  return (call, done) => {
    const fail = (error: unknown) => {
      const isMalformed = error instanceof MalformedError;
      if (!isMalformed) log.write("error", "safety_kernel_failed", { method, error: String(error) });
      const details = isMalformed ? error.message : "something failed that should not; the kernel's log says what";
      done({ code: isMalformed ? status.INVALID_ARGUMENT : status.INTERNAL, details } as ServiceError);
    };
    try {
      const answered = answer(call.request);
      if (answered instanceof Promise) answered.then((bytes) => done(null, Buffer.from(bytes)), fail);
      else done(null, answered as Buffer);
    } catch (error) {
      fail(error);
    }
  };
}

const asIs = (bytes: Buffer): Buffer => bytes;

/** Bytes in, bytes out: what they mean is read in the handlers, so that a bad question gets its proper status. */
const method = (path: string): ServiceDefinition[string] => ({
  path,
  requestStream: false,
  responseStream: false,
  requestSerialize: asIs,
  requestDeserialize: asIs,
  responseSerialize: asIs,
  responseDeserialize: asIs,
});

const METHODS = Object.keys(SAFETY_SERVICE.methods) as SafetyMethod[];
const DEFINITION: ServiceDefinition = Object.fromEntries(METHODS.map((name) => [name, method(safetyPath(name))]));
const FRAMES: ServiceDefinition = { Check: method(FRAME_PATH) };

function credentialsOf({ tls }: KernelTrust): ServerCredentials {
  if (tls === null) return ServerCredentials.createInsecure();
  const { pair, ca } = tls;
  return ServerCredentials.createSsl(ca, [{ cert_chain: pair.chain, private_key: pair.key }], ca !== null);
}

function bind(server: Server, address: string, credentials: ServerCredentials): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, port) => {
      if (error === null) resolve(port);
      else reject(isTaken(error) ? Object.assign(error, { code: "EADDRINUSE" }) : error);
    });
  });
}

const isTaken = (error: Error): boolean => /EADDRINUSE|already in use/i.test(error.message);

function stop(server: Server, msMax: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, msMax);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
