/**
 * The HTTP server.
 *
 * 1. It binds to a non-loopback address only if an API key exists.
 * 2. `stop` rejects new requests, aborts streams and long polls, waits for other requests, then resolves.
 * 3. Bodies, headers, URLs, request rates, streams and connections are limited.
 */
import type { Socket } from "node:net";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { isLoopback } from "../core/model/loopback.ts";
import { nearestName } from "../core/model/suggestion.ts";
import type { Random } from "../ports/random.ts";
import { KeyAuthenticator } from "./auth/access.ts";
import { documentRoute } from "./openapi.ts";
import { PROBLEM_CONTENT_TYPE, Problem, problemResponse, toProblem } from "./problem.ts";
import { RequestPipeline } from "./request-pipeline.ts";
import type { Gateway, Route } from "./route.ts";
import { APPROVAL_ROUTES } from "./routes/approvals.ts";
import { AUDIT_ROUTES } from "./routes/audit.ts";
import { DEAD_LETTER_ROUTES } from "./routes/dead-letters.ts";
import { FAIL_OPEN_ROUTES } from "./routes/fail-open.ts";
import { HEALTH_ROUTES } from "./routes/health.ts";
import { JOB_ROUTES } from "./routes/jobs.ts";
import { KEY_ROUTES } from "./routes/keys.ts";
import { KILL_ROUTES } from "./routes/kill-switch.ts";
import { LOCK_ROUTES } from "./routes/locks.ts";
import { MEMORY_ROUTES } from "./routes/memory.ts";
import { POLICY_ROUTES } from "./routes/policy.ts";
import { RUN_CONTROL_ROUTES } from "./routes/run-control.ts";
import { RUN_ROUTES } from "./routes/runs.ts";
import { STATUS_ROUTES } from "./routes/status.ts";
import { STREAM_ROUTES } from "./routes/stream.ts";
import { DecisionWaiter } from "./routes/submit.ts";
import { TRACE_ROUTES } from "./routes/traces.ts";
import { WORKER_ROUTES } from "./routes/worker-leases.ts";
import { WORKERS_ROUTES } from "./routes/workers.ts";
import { WORKFLOW_ROUTES } from "./routes/workflows.ts";
import { handleUpgrades } from "./server-websocket.ts";
import { STATUS_PAGE_ROUTES } from "./status-page/page.ts";

export const ROUTES: readonly Route[] = [
  ...JOB_ROUTES,
  ...WORKFLOW_ROUTES,
  ...RUN_ROUTES,
  ...RUN_CONTROL_ROUTES,
  ...TRACE_ROUTES,
  ...APPROVAL_ROUTES,
  ...DEAD_LETTER_ROUTES,
  ...KEY_ROUTES,
  ...AUDIT_ROUTES,
  ...MEMORY_ROUTES,
  ...POLICY_ROUTES,
  ...FAIL_OPEN_ROUTES,
  ...KILL_ROUTES,
  ...STATUS_ROUTES,
  ...STREAM_ROUTES,
  ...WORKER_ROUTES,
  ...WORKERS_ROUTES,
  ...LOCK_ROUTES,
  ...STATUS_PAGE_ROUTES,
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
  readonly ratePerS?: number;
}

export function openGateway(
  parts: Omit<Gateway, "isDraining" | "startedMs" | "auth" | "decisions">,
  limits: GatewayLimits,
  routes: readonly Route[] = ROUTES,
): GatewayServer {
  let draining = false;
  const { engine, info } = parts;
  const auth = new KeyAuthenticator(engine);
  const decisions = new DecisionWaiter(engine);
  const startedMs = engine.world.clock.now();
  const gateway: Gateway = { ...parts, auth, decisions, startedMs, isDraining: () => draining };
  const pipeline = new RequestPipeline(gateway, limits.ratePerS ?? RATE_PER_S);
  const all = [...routes, documentRoute(routes, info.version)];
  const app = newApp(gateway, limits, all);
  // A kept-alive connection would block `stop` until its next request.
  app.addHook("onSend", async (_, reply) => {
    if (draining) reply.header("connection", "close");
  });
  for (const route of all) pipeline.register(app, route);
  handleUpgrades(app);
  return {
    app,
    async listen(host, port) {
      if (!isLoopback(host) && !(await auth.anyKeyExists())) throw new InsecureBindError(host);
      return app.listen({ host, port });
    },
    async stop() {
      draining = true;
      pipeline.abortLongLived();
      await app.close();
    },
  };
}

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

function newApp(gateway: Gateway, { bodyBytesMax }: GatewayLimits, routes: readonly Route[]): FastifyInstance {
  const { log, random } = gateway.engine.world;
  const app = fastify({
    bodyLimit: bodyBytesMax,
    requestTimeout: REQUEST_MS_MAX,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: ID_LENGTH_MAX },
    http: { maxHeaderSize: HEADER_BYTES_MAX },
    genReqId: ({ headers }) => requestId(headers["x-request-id"], random),
    clientErrorHandler: rejectUnparsable,
  });
  app.server.maxConnections = CONNECTIONS_MAX;
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
      else parse(request, body, done);
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
  const isLarge = error.code === "HPE_HEADER_OVERFLOW";
  const problem = isLarge
    ? new Problem("headers_too_large", `the limit is ${HEADER_BYTES_MAX} bytes`)
    : new Problem("invalid_request", "malformed HTTP request");
  const { status, body } = problemResponse(problem, () => 0);
  const text = JSON.stringify(body);
  const head = `HTTP/1.1 ${status} Refused\r\ncontent-type: ${PROBLEM_CONTENT_TYPE}\r\nconnection: close`;
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

function requestId(given: string | readonly string[] | undefined, random: Random): string {
  return typeof given === "string" && /^[\w.:-]{1,64}$/.test(given) ? given : random.id();
}

const REQUEST_MS_MAX = 30_000;
const ID_LENGTH_MAX = 300;
const HEADER_BYTES_MAX = 16 * 1024;
const URL_LENGTH_MAX = 8_192;
const CONNECTIONS_MAX = 10_000;
const RATE_PER_S = 2_000;
/** W3C trace context, version 00. */
const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
