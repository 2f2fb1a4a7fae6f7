/**
 * The HTTP server: reads requests, finds their route, turns outcomes into responses. No rules.
 *
 * 1. It listens beyond loopback only where there are API keys.
 * 2. `stop` takes nothing new, ends streams and requests that wait, lets the others finish, then resolves.
 * 3. Everything has a limit: bodies, headers, addresses, requests a second, streams, connections.
 */
import type { Socket } from "node:net";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { isLoopback } from "../core/model/loopback.ts";
import { nearestName } from "../core/model/suggestion.ts";
import type { Random } from "../ports/random.ts";
import { KeyRing } from "./auth/access.ts";
import { documentRoute } from "./openapi.ts";
import { answerFor, PROBLEM_TYPE, Problem, problemFrom } from "./problem.ts";
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
import { BUNDLE_ROUTES } from "./routes/policy-bundles.ts";
import { RUN_CONTROL_ROUTES } from "./routes/run-control.ts";
import { RUN_ROUTES } from "./routes/runs.ts";
import { STATUS_ROUTES } from "./routes/status.ts";
import { STREAM_ROUTES } from "./routes/stream.ts";
import { TRACE_ROUTES } from "./routes/traces.ts";
import { Verdicts } from "./routes/verdict.ts";
import { WORKER_ROUTES } from "./routes/worker.ts";
import { WORKERS_ROUTES } from "./routes/workers.ts";
import { WORKFLOW_ROUTES } from "./routes/workflows.ts";
import { Calls } from "./server-call.ts";
import { takeUpgrades } from "./server-socket.ts";
import { STATUS_PAGE_ROUTES } from "./status-page/status-page.ts";
import { SCHEMA_ROUTES } from "./views/workflow-schemas.ts";

export const ROUTES: readonly Route[] = [
  ...JOB_ROUTES,
  ...WORKFLOW_ROUTES,
  ...RUN_ROUTES,
  ...RUN_CONTROL_ROUTES,
  ...SCHEMA_ROUTES,
  ...TRACE_ROUTES,
  ...APPROVAL_ROUTES,
  ...DEAD_LETTER_ROUTES,
  ...KEY_ROUTES,
  ...AUDIT_ROUTES,
  ...MEMORY_ROUTES,
  ...POLICY_ROUTES,
  ...BUNDLE_ROUTES,
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
  /** For tests: requests without sockets. */
  readonly app: FastifyInstance;
  /** Resolves to the address, such as `http://127.0.0.1:8081`. */
  listen(host: string, port: number): Promise<string>;
  stop(): Promise<void>;
}

export interface GatewayLimits {
  readonly bodyBytesMax: number;
  /** Requests of one caller. */
  readonly ratePerS?: number;
}

export function openGateway(
  parts: Omit<Gateway, "isDraining" | "startedMs" | "keys" | "verdicts">,
  limits: GatewayLimits,
  routes: readonly Route[] = ROUTES,
): GatewayServer {
  let draining = false;
  const { clock } = parts.engine.world;
  const keys = new KeyRing(parts.engine);
  const verdicts = new Verdicts(parts.engine);
  const gateway: Gateway = { ...parts, keys, verdicts, startedMs: clock.now(), isDraining: () => draining };
  const calls = new Calls(gateway, limits.ratePerS ?? RATE_PER_S);
  const all = [...routes, documentRoute(routes, parts.about.version)];
  const app = newApp(gateway, limits, all);
  // A connection that is kept alive would keep `stop` waiting for its next request.
  app.addHook("onSend", async (_, reply) => {
    if (draining) reply.header("connection", "close");
  });
  for (const route of all) calls.add(app, route);
  takeUpgrades(app);
  return {
    app,
    async listen(host, port) {
      if (!isLoopback(host) && !(await keys.exist())) throw new NotLoopback(host);
      return app.listen({ host, port });
    },
    async stop() {
      draining = true;
      calls.endWaiting();
      await app.close();
    },
  };
}

/** Listening on anything else would open the control plane to the network without a key. */
export class NotLoopback extends Error {
  override readonly name = "NotLoopback";

  constructor(host: string) {
    super(
      `will not listen on \`${host}\`: there is no API key yet, so only loopback (127.0.0.1, ::1, localhost) is safe; ` +
        "start on loopback, make one with `cordum key create`, then start again",
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
    clientErrorHandler: refuseUnread,
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
      throw new Problem("url_too_long", `it has ${url.length} characters; at most ${URL_LENGTH_MAX} are read`);
    }
  });
  app.addHook("onResponse", async (request, reply) => {
    log.write("debug", "request", {
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
  const asked = `${method} ${path.slice(0, 200)}`;
  const nearest = nearestName(asked, known);
  const all = "`GET /api/v1/openapi.json` has all there is";
  return `no \`${asked}\`; ${nearest === undefined ? all : `did you mean \`${nearest}\`? ${all}`}`;
}

/** JSON, and YAML where a route takes it. A POST without a body but with the content type is fine: real clients send it. */
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
      if (routeOptions.config.takesYaml) done(null, source.trim() === "" ? undefined : { source });
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
  const problem = problemFrom(error);
  const { status, headers, body } = answerFor(problem, () => random.next());
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
  reply.code(status).headers(headers).type(PROBLEM_TYPE);
  // Who is cut off while sending sees a broken connection in place of the answer: the rest is taken and thrown away.
  if (status === 413 && Number(request.headers["content-length"]) <= DISCARDED_BYTES_MAX) {
    reply.removeHeader("connection");
  }
  return body;
}

const DISCARDED_BYTES_MAX = 64 * 1024 * 1024;

/** What could not even be read as a request: too many headers, or no HTTP at all. */
function refuseUnread(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const isLarge = error.code === "HPE_HEADER_OVERFLOW";
  const problem = isLarge
    ? new Problem("headers_too_large", `at most ${HEADER_BYTES_MAX} bytes are read`)
    : new Problem("invalid_request", "this is no HTTP request that can be read");
  const { status, body } = answerFor(problem, () => 0);
  const text = JSON.stringify(body);
  const head = `HTTP/1.1 ${status} Refused\r\ncontent-type: ${PROBLEM_TYPE}\r\nconnection: close`;
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

/** The client's own name for the request, if it is a plain one. */
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
