/**
 * A request through its route: authentication, authorization, rate limit, validation, handler, response.
 *
 * 1. The caller is authenticated before the body is read.
 * 2. A long poll or stream occupies a connection slot until its connection closes. Its signal is aborted when the client
 *    disconnects or the process shuts down.
 * 3. The key of a long-lived request is checked again every second; an expired or revoked key aborts the request.
 * 4. Rates and connection slots are limited per caller and per tenant.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EVERY_ORG } from "../core/model/api-key.ts";
import { ERRORS } from "../core/model/errors.ts";
import { quotaOf } from "../core/model/quota.ts";
import { ANONYMOUS, type CallerInfo, isAllowed, tenantOf } from "./auth/access.ts";
import { ConnectionLimiter, type Rate, StreamQuota, TokenBuckets } from "./auth/limits.ts";
import { Problem } from "./problem.ts";
import type { EventSink, Gateway, GatewayRequest, GatewayResponse, Principal, Route } from "./route.ts";
import { acceptWebSocket, isWebSocketRequest } from "./server-websocket.ts";
import { createValidator } from "./validate.ts";

/** The authenticated sender of a request, and its tenant. */
export interface Caller {
  readonly principal: Principal;
  readonly org: string;
}

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    acceptsYaml?: boolean;
  }
}

export class RequestPipeline {
  readonly #gateway: Gateway;
  readonly #rate: Rate;
  readonly #tenantRate: Rate;
  readonly #buckets = new TokenBuckets();
  readonly #tenantBuckets = new TokenBuckets();
  readonly #connections = new ConnectionLimiter(CONNECTIONS_MAX);
  readonly #streams = new StreamQuota();
  readonly #longLived = new Set<AbortController>();

  constructor(gateway: Gateway, ratePerS: number) {
    this.#gateway = gateway;
    this.#rate = { perSecond: ratePerS, burst: ratePerS * BURST_S };
    const tenantRatePerS = ratePerS * TENANT_FACTOR;
    this.#tenantRate = { perSecond: tenantRatePerS, burst: tenantRatePerS * BURST_S };
  }

  register(app: FastifyInstance, route: Route): void {
    const validate = createValidator(route);
    app.route({
      method: route.method,
      url: route.path,
      exposeHeadRoute: route.method === "GET" && !route.longLived,
      config: { acceptsYaml: route.acceptsYaml ?? false },
      onRequest: async (request) => {
        request.caller = await this.#admit(route, request);
      },
      handler: async (raw, reply) => {
        const longLived = route.longLived ? this.#openLongLived(raw, reply, route) : null;
        const request = readRequest(raw, longLived?.signal ?? NEVER_ABORTED);
        validate(request);
        const response = await route.handle(this.#gateway, request);
        if (response.body === null) throwIfKeyEnded(request.signal);
        return send(reply, response, request);
      },
    });
  }

  abortLongLived(): void {
    for (const controller of this.#longLived) controller.abort();
  }

  async #admit(route: Route, { headers, ip, method }: FastifyRequest): Promise<Caller> {
    const { isClosing, auth, engine } = this.#gateway;
    if (isClosing() && !route.isHealth) {
      throw new Problem("shutting_down", "send the request again; another process or the restarted one will serve it");
    }
    if (route.access === "open") return { principal: ANONYMOUS, org: ANONYMOUS.org };
    const principal = await auth.authenticate({ headers, ip, method });
    if (!isAllowed(principal, route)) throw auth.auditRefusal(forbidden(principal, route), principal);
    const org = this.#tenantOf(principal, headers);
    const exceeded = this.#takeToken(principal);
    if (exceeded === null) return { principal, org };
    if (isSubmission(route)) engine.world.metrics.add("cordum_admission_rejected_total", { reason: "rate_limited" });
    const { rate, scope } = exceeded;
    const detail = `limit is ${rate.perSecond} requests per second per ${scope}; slow down, or raise \`http.rate_per_s\``;
    throw new Problem("too_many_requests", detail, { current: rate.burst, limit: rate.burst });
  }

  /** Takes a token from the caller and from its tenant, or from neither: a rejected request costs nothing. */
  #takeToken({ id, org }: Principal): { readonly rate: Rate; readonly scope: "caller" | "tenant" } | null {
    const nowMs = this.#gateway.engine.world.clock.now();
    if (this.#buckets.available(id, nowMs, this.#rate) < 1) return { rate: this.#rate, scope: "caller" };
    // Keys of `*` belong to operators, who share no tenant limit with each other or with a tenant.
    if (org !== EVERY_ORG && !this.#tenantBuckets.take(org, nowMs, this.#tenantRate)) {
      return { rate: this.#tenantRate, scope: "tenant" };
    }
    this.#buckets.take(id, nowMs, this.#rate);
    return null;
  }

  #tenantOf(principal: Principal, headers: GatewayRequest["headers"]): string {
    try {
      return tenantOf(principal, headers);
    } catch (error) {
      if (error instanceof Problem && error.code === "tenant_forbidden") {
        throw this.#gateway.auth.auditRefusal(error, principal);
      }
      throw error;
    }
  }

  #openLongLived({ caller, headers, ip, method }: FastifyRequest, reply: FastifyReply, route: Route): AbortController {
    const { id, org } = caller?.principal ?? ANONYMOUS;
    // Keys of `*` belong to operators, who have no tenant limit.
    const limit = org === EVERY_ORG ? null : quotaOf(this.#gateway.engine.settings.current, org, "streamsMax");
    const release = route.isStream && limit !== null ? this.#streams.acquire(org, limit) : () => {};
    const slot = this.#connections.acquire(id, org === EVERY_ORG ? null : org);
    if (slot.kind === "full") {
      release();
      const { current, limit } = slot;
      throw new Problem("too_many_waiting", "close some of them, or lease more jobs with each long poll", {
        current,
        limit,
      });
    }
    const controller = new AbortController();
    this.#longLived.add(controller);
    reply.raw.once("close", () => {
      slot.release();
      release();
      this.#longLived.delete(controller);
      controller.abort();
    });
    if (caller !== null && caller.principal !== ANONYMOUS) this.#recheckKey(controller, { headers, ip, method });
    return controller;
  }

  #recheckKey(controller: AbortController, caller: CallerInfo): void {
    const { engine, auth } = this.#gateway;
    let stop = () => {};
    const check = async () => {
      const refusal = await auth.check(caller).then(() => null, refusalIn);
      if (controller.signal.aborted) return;
      if (refusal) controller.abort(refusal);
      else stop = engine.world.clock.after(KEY_CHECK_MS, check);
    };
    stop = engine.world.clock.after(KEY_CHECK_MS, check);
    controller.signal.addEventListener("abort", () => stop(), { once: true });
  }
}

/** An unavailable store does not invalidate the key: the request continues until the next check. */
const refusalIn = (error: unknown): Problem | null =>
  error instanceof Problem && ERRORS[error.code].status === 401 ? error : null;

/** An empty response to an aborted request is replaced by the refusal of its key. */
function throwIfKeyEnded({ aborted, reason }: AbortSignal): void {
  if (aborted && reason instanceof Problem) throw reason;
}

const isSubmission = ({ method, path }: Route): boolean => method === "POST" && SUBMISSION_PATHS.includes(path);

function forbidden({ role, org }: Principal, { access, allTenants }: Route): Problem {
  const required =
    access === "system" ? "a key of tenant `*` with role `admin`" : allTenants ? "a key of tenant `*`" : null;
  const detail = `role \`${role}\` of tenant \`${org}\` has no \`${access}\` access to this route`;
  return new Problem("forbidden", `${detail}; use ${required ?? "a key whose role has it"}`);
}

function readRequest(request: FastifyRequest, signal: AbortSignal): GatewayRequest {
  const { principal, org } = request.caller ?? { principal: ANONYMOUS, org: ANONYMOUS.org };
  return {
    org,
    principal,
    params: request.params as GatewayRequest["params"],
    query: request.query as GatewayRequest["query"],
    headers: request.headers,
    ip: request.ip,
    body: request.body,
    id: request.id,
    signal,
  };
}

function send(reply: FastifyReply, response: GatewayResponse, { signal }: GatewayRequest): unknown {
  reply.code(response.status);
  if (response.contentType) reply.type(response.contentType);
  if (response.headers) reply.headers(response.headers);
  if (!response.stream) return response.body ?? reply.send();
  if (isWebSocketRequest(reply.request.raw) && !signal.aborted) return acceptWebSocket(reply, response.stream);
  reply.hijack();
  if (signal.aborted) return reply.raw.destroy();
  reply.raw.writeHead(response.status, { ...(reply.getHeaders() as Record<string, string>), connection: "close" });
  reply.raw.flushHeaders();
  return response.stream(sseSink(reply.raw));
}

/** Server-sent events. */
function sseSink(raw: FastifyReply["raw"]): EventSink {
  const write = (text: string) => {
    if (!raw.destroyed) raw.write(text);
  };
  write(": connected\n\n");
  return {
    bufferedBytes: () => raw.writableLength,
    event: (name, data, id) => write(`id: ${id}\nevent: ${name}\ndata: ${data}\n\n`),
    heartbeat: (id) => write(`: alive\nid: ${id}\n\n`),
    end(reason) {
      write(`: ${reason}\n\n`);
      raw.end();
    },
    drop: () => void raw.destroy(),
  };
}

const NEVER_ABORTED = new AbortController().signal;
const SUBMISSION_PATHS: readonly string[] = ["/api/v1/jobs", "/api/v1/workflows/:id/runs"];
const BURST_S = 2;
/** The limit of a tenant, as a multiple of the limit of one caller. */
const TENANT_FACTOR = 2;
const KEY_CHECK_MS = 1_000;
/** One caller can be all workers of a tenant. */
const CONNECTIONS_MAX = { perCaller: 1_000, perTenant: 2_000, all: 5_000 } as const;
