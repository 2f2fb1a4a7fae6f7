/**
 * gRPC server of the safety kernel: the CAP service `SafetyKernel`.
 *
 * 1. Every request is decided by one snapshot: the one active when the request is read.
 * 2. A malformed request gets INVALID_ARGUMENT, a bug INTERNAL; neither is a decision.
 * 3. Message size and concurrent calls are bounded.
 * 4. Clients are authenticated as described in `trust.ts`.
 * 5. `stop` accepts no new calls and waits for calls in progress, with a timeout.
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
import type { PolicyRequest } from "../../core/policy/decision.ts";
import { explain } from "../../core/policy/explain.ts";
import type { LiveKernel } from "../../core/policy/kernel.ts";
import type { Log } from "../../ports/log.ts";
import { MalformedError } from "../../protocol/bytes.ts";
import { decodeCheck, encodeDecision, encodeSnapshots, SAFETY_BYTES_MAX } from "../../protocol/safety.ts";
import { decideFrame } from "../../protocol/safety-frame.ts";
import { FRAME_PATH, SAFETY_SERVICE, type SafetyMethod, safetyPath } from "../../protocol/safety-schema.ts";
import { tokenCheck } from "./token.ts";
import { checkListenHost, type KernelTrust, NO_TRUST } from "./trust.ts";

export interface SafetyServerOptions {
  readonly kernel: LiveKernel;
  readonly log: Log;
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** Default: no authentication, which is allowed on loopback only. */
  readonly trust?: KernelTrust;
  /** All snapshots that were ever active, newest first. Default: only the active one. */
  readonly snapshots?: () => Promise<readonly string[]>;
  /** How long `stop` waits for calls in progress. */
  readonly stopMsMax?: number;
}

export interface SafetyServer {
  /** For example `127.0.0.1:50051`. */
  readonly address: string;
  stop(): Promise<void>;
}

export async function startSafetyServer(options: SafetyServerOptions): Promise<SafetyServer> {
  const { kernel, log, host, trust = NO_TRUST } = options;
  checkListenHost(host, trust);
  const server = new Server({
    "grpc.max_receive_message_length": SAFETY_BYTES_MAX,
    "grpc.max_send_message_length": SAFETY_BYTES_MAX,
    "grpc.max_concurrent_streams": STREAMS_MAX,
    // Detects clients that vanished without closing the connection.
    "grpc.keepalive_time_ms": 60_000,
    "grpc.keepalive_timeout_ms": 20_000,
    ...(trust.token !== null && { interceptors: [tokenCheck(trust.token, log)] }),
  });
  server.addService(DEFINITION, implementation(options));
  const many: Answer = (bytes) =>
    decideFrame(bytes, (check) => encodeDecision(kernel.decide(timed(decodeCheck(check)))));
  server.addService(FRAMES, { Check: handler("CheckFrame", many, log) });
  const target = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  const port = await bind(server, `${target}:${options.port}`, credentialsOf(trust));
  return { address: `${target}:${port}`, stop: () => stop(server, options.stopMsMax ?? STOP_MS_MAX) };
}

/** Per connection. Calls are answered in the tick in which they are read, so few are concurrent. */
const STREAMS_MAX = 1_000;
const STOP_MS_MAX = 5_000;

type Answer = (bytes: Buffer) => Uint8Array | Promise<Uint8Array>;

function implementation({ kernel, log, snapshots }: SafetyServerOptions): UntypedServiceImplementation {
  const decide: Answer = (bytes) => encodeDecision(kernel.decide(timed(decodeCheck(bytes))));
  const answers: Readonly<Record<SafetyMethod, Answer>> = {
    Check: decide,
    Evaluate: decide,
    // The kernel has no side effects, so a simulation is a decision.
    Simulate: decide,
    Explain(bytes) {
      const { decision, tried, omitted } = explain(kernel.inForce.snapshot, timed(decodeCheck(bytes)));
      return encodeDecision(decision, { tried, omitted });
    },
    ListSnapshots: async () => encodeSnapshots((await snapshots?.()) ?? [kernel.inForce.snapshot.hash]),
  };
  return Object.fromEntries(Object.entries(answers).map(([name, answer]) => [name, handler(name, answer, log)]));
}

/** Callers of earlier versions and of third parties send no time. */
function timed(request: PolicyRequest): PolicyRequest {
  return request.nowMs === undefined ? { ...request, nowMs: Date.now() } : request;
}

function handler(method: string, answer: Answer, log: Log): handleUnaryCall<Buffer, Buffer> {
  return (call, done) => {
    const fail = (error: unknown) => {
      const isMalformed = error instanceof MalformedError;
      if (!isMalformed) log.write("error", "safety_kernel_failed", { method, error: String(error) });
      const details = isMalformed ? error.message : "internal error: see the log of the safety kernel";
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

const identity = (bytes: Buffer): Buffer => bytes;

/** Handlers decode the bytes themselves, so that a malformed request gets its own status. */
const method = (path: string): ServiceDefinition[string] => ({
  path,
  requestStream: false,
  responseStream: false,
  requestSerialize: identity,
  requestDeserialize: identity,
  responseSerialize: identity,
  responseDeserialize: identity,
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
