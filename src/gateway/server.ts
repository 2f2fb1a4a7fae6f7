/**
 * The HTTP server.
 *
 * 1. It binds to a non-loopback address only if an API key exists.
 * 2. `stop` reports not ready and serves requests for the grace period, each with `connection: close`. Then it rejects new
 *    requests, aborts streams and long polls, waits for other requests, and resolves.
 * 3. Bodies, headers, URLs, request rates, streams and connections are limited, and every connection state has a timeout
 *    (`server-connections.ts`).
 */
import type { Socket } from "node:net";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { defaultConfig } from "../config/config.ts";
import { isTooDeep } from "../core/model/json.ts";
import { isLoopback } from "../core/model/loopback.ts";
import { nearestName } from "../core/model/suggestion.ts";
import { EventReplay, LoadGauges, Throughput } from "../engine/observe/index.ts";
import type { Random } from "../ports/random.ts";
import { KeyAuthenticator } from "./auth/access.ts";
import { Approvers } from "./auth/approvers.ts";
import { type SessionLimits, Sessions } from "./auth/sessions.ts";
import { JOB_BULK_ROUTES } from "./bulk/job-bulk.ts";
import { documentRoute } from "./openapi.ts";
import { PROBLEM_CONTENT_TYPE, Problem, problemResponse, toProblem } from "./problem.ts";
import { RequestPipeline } from "./request-pipeline.ts";
import type { Gateway, Route } from "./route.ts";
import { APPROVAL_ROUTES } from "./routes/approvals.ts";
import { AUDIT_ROUTES } from "./routes/audit.ts";
import { CONTENTION_ROUTES } from "./routes/contention.ts";
import { DEMO_ROUTES } from "./routes/dashboard/demo.ts";
import { LAB_ROUTES } from "./routes/dashboard/lab.ts";
import { OVERVIEW_ROUTES } from "./routes/dashboard/overview.ts";
import { SESSION_ROUTES } from "./routes/dashboard/session.ts";
import { SETTINGS_ROUTES } from "./routes/dashboard/settings.ts";
import { WAVES_ROUTES } from "./routes/dashboard/waves.ts";
import { DEAD_LETTER_ROUTES } from "./routes/dead-letters.ts";
import { FAIL_OPEN_ROUTES } from "./routes/fail-open.ts";
import { HEALTH_ROUTES } from "./routes/health.ts";
import { JOB_ROUTES } from "./routes/jobs.ts";
import { KEY_ROUTES } from "./routes/keys.ts";
import { KILL_ROUTES } from "./routes/kill-switch.ts";
import { LOCK_ROUTES } from "./routes/locks.ts";
import { MEMORY_ROUTES } from "./routes/memory.ts";
import { POLICY_ROUTES } from "./routes/policy.ts";
import { ROLLOUT_ROUTES } from "./routes/rollouts.ts";
import { RUN_CONTROL_ROUTES } from "./routes/run-control.ts";
import { RUN_ROUTES } from "./routes/runs.ts";
import { STATUS_ROUTES } from "./routes/status.ts";
import { STREAM_ROUTES } from "./routes/stream.ts";
import { DecisionWaiter } from "./routes/submit.ts";
import { TRACE_ROUTES } from "./routes/traces.ts";
import { WORKER_ROUTES } from "./routes/worker-leases.ts";
import { WORKERS_ROUTES } from "./routes/workers.ts";
import { WORKFLOW_ROUTES } from "./routes/workflows.ts";
import { SCHEDULE_ROUTES } from "./schedules/schedule-routes.ts";
import { ConnectionGuard, type ConnectionLimits, checkingInterval, lingeringClose } from "./server-connections.ts";
import { serveDashboard } from "./server-dashboard.ts";
import { handleUpgrades } from "./server-websocket.ts";

export const ROUTES: readonly Route[] = [
  ...JOB_ROUTES,
  ...JOB_BULK_ROUTES,
  ...WORKFLOW_ROUTES,
  ...RUN_ROUTES,
  ...RUN_CONTROL_ROUTES,
  ...TRACE_ROUTES,
  ...APPROVAL_ROUTES,
  ...DEAD_LETTER_ROUTES,
  ...SESSION_ROUTES,
  ...OVERVIEW_ROUTES,
  ...WAVES_ROUTES,
  ...LAB_ROUTES,
  ...SETTINGS_ROUTES,
  ...DEMO_ROUTES,
  ...KEY_ROUTES,
  ...AUDIT_ROUTES,
  ...MEMORY_ROUTES,
  ...POLICY_ROUTES,
  ...FAIL_OPEN_ROUTES,
  ...KILL_ROUTES,
  ...ROLLOUT_ROUTES,
  ...SCHEDULE_ROUTES,
  ...STATUS_ROUTES,
  ...STREAM_ROUTES,
  ...WORKER_ROUTES,
  ...WORKERS_ROUTES,
  ...LOCK_ROUTES,
  ...CONTENTION_ROUTES,
  ...HEALTH_ROUTES,
];

export interface GatewayServer {
  /** For tests that inject requests without a socket. */
  readonly app: FastifyInstance;
  /** Resolves to the base URL, such as `http://127.0.0.1:8081`. */
  listen(host: string, port: number): Promise<string>;
  stop(): Promise<void>;
}

export interface GatewayLimits {
  readonly bodyBytesMax: number;
  /** Per caller. */
  readonly ratePerS: number;
  readonly connections: ConnectionLimits;
  readonly session: SessionLimits;
  /** How long `stop` serves requests before it closes connections. */
  readonly shutdownGraceMs: number;
}

type OwnParts =
  | "isDraining"
  | "isClosing"
  | "startedMs"
  | "config"
  | "auth"
  | "sessions"
  | "approvers"
  | "decisions"
  | "replay"
  | "throughput"
  | "demo"
  | "signer"
  | "lab"
  | "loadGauges";
export type GatewayParts = Omit<Gateway, OwnParts> &
  Partial<Pick<Gateway, "signer" | "demo" | "lab" | "config">> & {
    /** Accepted while no API key exists; null: nothing is. */
    readonly startupToken: string | null;
    /** The folder of the built dashboard; null: not served. */
    readonly dashboardDir?: string | null;
  };

export function openGateway(
  parts: GatewayParts,
  limits: GatewayLimits,
  routes: readonly Route[] = ROUTES,
): GatewayServer {
  let draining = false;
  let closing = false;
  const { engine, info } = parts;
  const sessions = new Sessions(engine, limits.session);
  const auth = new KeyAuthenticator(engine, parts.startupToken, sessions);
  const decisions = new DecisionWaiter(engine);
  const startedMs = engine.world.clock.now();
  const gateway: Gateway = {
    ...DEFAULT_PARTS,
    ...parts,
    auth,
    sessions,
    approvers: new Approvers(engine),
    loadGauges: new LoadGauges(),
    decisions,
    replay: new EventReplay(engine),
    throughput: new Throughput(engine),
    startedMs,
    isDraining: () => draining,
    isClosing: () => closing,
  };
  const pipeline = new RequestPipeline(gateway, limits.ratePerS);
  const all = [...routes, documentRoute(routes, info.version)];
  const app = newApp(gateway, limits, all);
  const connections = guardConnections(app, limits.connections, all);
  // A kept-alive connection would block `stop` until its next request.
  app.addHook("onSend", async (_, reply) => {
    if (draining) reply.header("connection", "close");
  });
  for (const route of all) pipeline.register(app, route);
  serveDashboard(app, parts.dashboardDir ?? null);
  handleUpgrades(app);
  return {
    app,
    async listen(host, port) {
      if (!isLoopback(host) && !(await auth.anyKeyExists())) throw new InsecureBindError(host);
      return app.listen({ host, port });
    },
    async stop() {
      draining = true;
      if (app.server.listening) await delay(limits.shutdownGraceMs);
      closing = true;
      pipeline.abortLongLived();
      // Requests that have arrived are read and answered before their connections are closed.
      await nextTurn();
      await nextTurn();
      await connections.closeIdle();
      await app.close();
      gateway.replay.close();
      gateway.throughput.close();
    },
  };
}

const DEFAULT_PARTS = { signer: null, demo: null, lab: null, config: defaultConfig } as const;

/** Binding to the network without an API key would give every host administrator access. */
export class InsecureBindError extends Error {
  override readonly name = "InsecureBindError";

  constructor(host: string) {
    super(
      `refusing to listen on \`${host}\` without an API key; start on loopback (127.0.0.1, ::1, localhost), ` +
        "create a key with `cordum key create --tenant '*' --role admin`, then start again",
    );
  }
}

/** Connections of the reserve serve health routes only; all others receive 503 with `Retry-After`. */
function guardConnections(app: FastifyInstance, limits: ConnectionLimits, routes: readonly Route[]): ConnectionGuard {
  const guard = new ConnectionGuard(app.server, limits);
  const health = new Set(routes.filter(({ isHealth }) => isHealth).map(({ path }) => path));
  app.decorateRequest("isStarted", false);
  app.decorateRequest("isAnswered", false);
  app.addHook("onRequest", async ({ raw: { socket }, routeOptions }, reply) => {
    guard.received(socket);
    if (!guard.isReserved(socket)) return;
    reply.header("connection", "close");
    if (health.has(routeOptions.url ?? "")) return;
    throw new Problem("too_many_connections", "close idle connections, or send the request to another process");
  });
  // After the body: a client that sends none must not keep its connection.
  app.addHook("preValidation", async (request) => {
    request.isStarted = true;
    guard.started(request.raw.socket);
  });
  app.addHook("onSend", async (request) => {
    if (request.isAnswered) return;
    request.isAnswered = true;
    guard.answered(request.raw.socket, request.isStarted);
  });
  app.addHook("onResponse", async ({ raw: { socket } }) => guard.sent(socket));
  return guard;
}

declare module "fastify" {
  interface FastifyRequest {
    isStarted: boolean;
    isAnswered: boolean;
  }
}

function newApp(
  gateway: Gateway,
  { bodyBytesMax, connections }: GatewayLimits,
  routes: readonly Route[],
): FastifyInstance {
  const { log, random } = gateway.engine.world;
  const app = fastify({
    bodyLimit: bodyBytesMax,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: ID_LENGTH_MAX },
    http: { maxHeaderSize: HEADER_BYTES_MAX, connectionsCheckingInterval: checkingInterval(connections) },
    genReqId: ({ headers }) => requestId(headers["x-request-id"], random),
    clientErrorHandler: rejectUnparsable,
    schemaController: NO_SCHEMAS,
  });
  app.decorateRequest("caller", null);
  readBodies(app);
  app.setErrorHandler((error, request, reply) => sendProblem(gateway, error, request, reply));
  app.setNotFoundHandler(async ({ method, url }) => {
    throw new Problem("route_not_found", notFound(method, url.split("?")[0] ?? "", routes));
  });
  app.addHook("onRequest", async ({ id, headers, url }, reply) => {
    reply.headers({ "x-request-id": id, "x-content-type-options": "nosniff", "cache-control": "no-store" });
    const { traceparent } = headers;
    if (typeof traceparent === "string" && TRACEPARENT.test(traceparent)) reply.header("traceparent", traceparent);
    if (url.length > URL_LENGTH_MAX) {
      throw new Problem("url_too_long", `${url.length} characters; the limit is ${URL_LENGTH_MAX}`);
    }
  });
  app.addHook("onResponse", async (request, reply) => {
    log.write("debug", "request_completed", {
      request: request.id,
      method: request.method,
      route: request.routeOptions.url,
      who: request.caller?.principal.id,
      org: request.caller?.org,
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime),
    });
  });
  return app;
}

/** Routes check their requests themselves. Loading the default compilers takes a tenth of the time of a start. */
const NO_SCHEMAS = {
  compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler },
};

function noCompiler(): never {
  throw new Error("routes declare no schemas to fastify");
}

function notFound(method: string, path: string, routes: readonly Route[]): string {
  const known = routes.map((route) => `${route.method} ${route.path}`);
  const requested = `${method} ${path.slice(0, 200)}`;
  const nearest = nearestName(requested, known);
  const list = "`GET /api/v1/openapi.json` lists all routes";
  return `\`${requested}\` does not exist; ${nearest === undefined ? list : `did you mean \`${nearest}\`? ${list}`}`;
}

/** JSON, and YAML for routes that accept it. An empty body with a content type is accepted: common clients send it. */
function readBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<string>(
    /^application\/([\w.+-]+\+)?json\b/,
    { parseAs: "string" },
    (request, body, done) => {
      if (body.trim() === "") done(null, undefined);
      else if (isTooDeep(body, BODY_DEPTH_MAX)) {
        done(new Problem("invalid_request", `the body is nested deeper than ${BODY_DEPTH_MAX} levels`));
      } else parse(request, body, done);
    },
  );
  app.addContentTypeParser<string>(
    /^(application|text)\/(x-)?yaml\b/,
    { parseAs: "string" },
    ({ routeOptions }, source, done) => {
      if (routeOptions.config.acceptsYaml) done(null, source.trim() === "" ? undefined : { source });
      else done(new Problem("unsupported_media_type", "send JSON with `content-type: application/json`"));
    },
  );
}

async function sendProblem(
  gateway: Gateway,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Readonly<Record<string, unknown>>> {
  const { log, random } = gateway.engine.world;
  const problem = toProblem(error);
  const { status, headers, body } = problemResponse(problem, () => random.next());
  if (status >= 500) {
    const cause = problem.cause instanceof Error ? (problem.cause.stack ?? problem.cause.message) : problem.message;
    log.write(status === 500 ? "error" : "warn", "request_failed", {
      code: problem.code,
      request: request.id,
      route: request.routeOptions.url,
      who: request.caller?.principal.id,
      cause,
    });
  }
  reply.code(status).headers(headers).type(PROBLEM_CONTENT_TYPE);
  // A client that is disconnected while sending never reads the response: the rest of the body is discarded instead.
  if (status === 413 && Number(request.headers["content-length"]) <= DISCARDED_BYTES_MAX) {
    reply.removeHeader("connection");
  }
  return body;
}

const DISCARDED_BYTES_MAX = 64 * 1024 * 1024;

/** Answers what the HTTP parser rejects. */
function rejectUnparsable(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const { status, body } = problemResponse(unparsable(error.code), Math.random);
  const text = JSON.stringify(body);
  const head = `HTTP/1.1 ${status} Refused\r\ncontent-type: ${PROBLEM_CONTENT_TYPE}\r\nconnection: close`;
  socket.write(`${head}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  lingeringClose(socket);
}

function unparsable(code: string | undefined): Problem {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new Problem("headers_too_large", `the limit is ${HEADER_BYTES_MAX} bytes`);
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new Problem("request_timeout", "the request was not received in time; send it again");
    default:
      return new Problem("invalid_request", "malformed HTTP request");
  }
}

function requestId(given: string | readonly string[] | undefined, random: Random): string {
  return typeof given === "string" && /^[\w.:-]{1,64}$/.test(given) ? given : random.id();
}

/** Recursive code of any route handles this depth. */
const BODY_DEPTH_MAX = 100;
const ID_LENGTH_MAX = 300;
const HEADER_BYTES_MAX = 16 * 1024;
const URL_LENGTH_MAX = 8_192;
/** W3C trace context, version 00. */
const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
