/**
 * The HTTP server: turns requests into calls of the route table and what they answer or throw into responses. No rules.
 *
 * 1. It listens on loopback only, and answers only to loopback names: there are no API keys yet, so neither the network
 *    nor a web page that points its own name here may reach it.
 * 2. `stop` takes nothing new, lets requests in progress finish, then resolves.
 */
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { DEFAULT_ORG } from "../jobs/submission.ts";
import { DEAD_LETTER_ROUTES } from "./dead-letters.ts";
import { HEALTH_ROUTES } from "./health.ts";
import { JOB_ROUTES } from "./jobs.ts";
import { answerFor, PROBLEM_TYPE, Problem, problemFrom } from "./problem.ts";
import type { Gateway, GatewayRequest, Route } from "./route.ts";
import { STATUS_ROUTES } from "./status.ts";

export const ROUTES: readonly Route[] = [...JOB_ROUTES, ...DEAD_LETTER_ROUTES, ...STATUS_ROUTES, ...HEALTH_ROUTES];

export interface GatewayServer {
  /** For tests: requests without sockets. */
  readonly app: FastifyInstance;
  /** Resolves to the address, such as `http://127.0.0.1:8081`. */
  listen(host: string, port: number): Promise<string>;
  stop(): Promise<void>;
}

export function openGateway(
  parts: Omit<Gateway, "isDraining" | "startedMs">,
  options: { readonly bodyBytesMax: number },
): GatewayServer {
  let draining = false;
  const gateway: Gateway = { ...parts, startedMs: parts.flow.world.clock.now(), isDraining: () => draining };
  const app = fastify({
    bodyLimit: options.bodyBytesMax,
    requestTimeout: REQUEST_MS_MAX,
    forceCloseConnections: "idle",
    return503OnClosing: false,
    routerOptions: { maxParamLength: ID_LENGTH_MAX },
  });
  readJsonBodies(app);
  app.setErrorHandler((error, request, reply) => sendProblem(gateway, error, request, reply));
  app.setNotFoundHandler(async (request) => {
    const known = [...new Set(ROUTES.map((route) => `\`${route.method} ${route.path}\``))].join(", ");
    throw new Problem("route_not_found", `no \`${request.method} ${request.url.slice(0, 200)}\`; there are ${known}`);
  });
  app.addHook("onRequest", async (request) => refuseForeignHost(request.headers.host));
  // A connection that is kept alive would keep `stop` waiting for its next request.
  app.addHook("onSend", async (_, reply) => {
    if (draining) reply.header("connection", "close");
  });
  for (const route of ROUTES) addRoute(app, gateway, route);
  return {
    app,
    async listen(host, port) {
      if (!isLoopback(host)) throw new NotLoopback(host);
      return app.listen({ host, port });
    },
    async stop() {
      draining = true;
      await app.close();
    },
  };
}

/** Binding to anything else would open the control plane to the network without a key. */
export class NotLoopback extends Error {
  override readonly name = "NotLoopback";

  constructor(host: string) {
    super(
      `will not listen on \`${host}\`: there are no API keys yet, so only loopback (127.0.0.1, ::1, localhost) is safe`,
    );
  }
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

function addRoute(app: FastifyInstance, gateway: Gateway, route: Route): void {
  app.route({
    method: route.method,
    url: route.path,
    async handler(request, reply) {
      if (gateway.isDraining() && !route.always) {
        throw new Problem(
          "shutting_down",
          "send it again: another process, or this one after its restart, will take it",
        );
      }
      const answer = await route.handle(gateway, readRequest(request));
      reply.code(answer.status);
      if (answer.contentType) reply.type(answer.contentType);
      return answer.body;
    },
  });
}

function readRequest(request: FastifyRequest): GatewayRequest {
  return {
    org: tenantOf(request),
    params: request.params as GatewayRequest["params"],
    query: request.query as GatewayRequest["query"],
    headers: request.headers,
    body: request.body,
  };
}

function tenantOf({ headers }: FastifyRequest): string {
  const tenant = headers["x-tenant-id"] ?? headers["x-cordum-tenant"] ?? DEFAULT_ORG;
  if (typeof tenant === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(tenant)) return tenant;
  throw new Problem("invalid_request", "`X-Tenant-ID` must be 1 to 64 letters, digits, `_` or `-`");
}

/** JSON only. A POST without a body but with the content type is fine: real clients send it. */
function readJsonBodies(app: FastifyInstance): void {
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
}

function refuseForeignHost(header: string | undefined): void {
  const name = (header ?? "").replace(/:\d+$/, "");
  if (isLoopback(name)) return;
  throw new Problem(
    "invalid_request",
    "this control plane answers only to loopback names, such as 127.0.0.1 or localhost",
  );
}

async function sendProblem(
  gateway: Gateway,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Readonly<Record<string, unknown>>> {
  const { log, random } = gateway.flow.world;
  const problem = problemFrom(error);
  const { status, headers, body } = answerFor(problem, () => random.next());
  if (status >= 500) {
    const cause = problem.cause instanceof Error ? (problem.cause.stack ?? problem.cause.message) : problem.message;
    log.write(status === 500 ? "error" : "warn", "request_failed", {
      code: problem.code,
      route: request.routeOptions.url,
      cause,
    });
  }
  reply.code(status).headers(headers).type(PROBLEM_TYPE);
  return body;
}

const REQUEST_MS_MAX = 30_000;
const ID_LENGTH_MAX = 300;
