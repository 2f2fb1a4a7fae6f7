/**
 * One request through one route: who calls, may they, is it too much, does it fit, then the handler; and its answer.
 *
 * 1. Who calls is known before the body is read: a stranger cannot make this process read a megabyte.
 * 2. A request that waits, and a stream, has a place (they are bounded) and a signal that fires when its client has gone or
 *    the process shuts down; its place is free again when the connection is.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { ANYBODY, mayCall, tenantOf } from "./access.ts";
import { Buckets, Places, type Rate } from "./limits.ts";
import { Problem } from "./problem.ts";
import type { Answer, Gateway, GatewayRequest, Principal, Reader, Route } from "./route.ts";
import { validatorOf } from "./validate.ts";

/** Who sent a request, and for which tenant. */
export interface Caller {
  readonly principal: Principal;
  readonly org: string;
}

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller | null;
  }
}

/** What the requests of one gateway share. */
export class Calls {
  readonly #gateway: Gateway;
  readonly #rate: Rate;
  readonly #buckets = new Buckets();
  readonly #places = new Places(PLACES_MAX);
  readonly #waiting = new Set<AbortController>();

  constructor(gateway: Gateway, ratePerS: number) {
    this.#gateway = gateway;
    this.#rate = { perSecond: ratePerS, burst: ratePerS * BURST_S };
  }

  add(app: FastifyInstance, route: Route): void {
    const validate = validatorOf(route);
    app.route({
      method: route.method,
      url: route.path,
      exposeHeadRoute: route.method === "GET" && !route.long,
      onRequest: async (request) => {
        request.caller = await this.#admit(route, request);
      },
      handler: async (raw, reply) => {
        const wait = route.long ? this.#wait(raw, reply) : null;
        const request = readRequest(raw, wait?.signal ?? NEVER);
        validate(request);
        return sendAnswer(reply, await route.handle(this.#gateway, request), request);
      },
    });
  }

  /** Ends whoever waits. */
  endWaiting(): void {
    for (const wait of this.#waiting) wait.abort();
  }

  async #admit(route: Route, { headers, ip }: FastifyRequest): Promise<Caller> {
    const { isDraining, keys, flow } = this.#gateway;
    if (isDraining() && !route.always) {
      throw new Problem("shutting_down", "send it again: another process, or this one after its restart, will take it");
    }
    if (route.access === "open") return { principal: ANYBODY, org: ANYBODY.org };
    const principal = await keys.identify({ headers, ip });
    if (!mayCall(principal, route)) throw keys.refuse(forbidden(principal, route), principal);
    const org = this.#tenantOf(principal, headers);
    if (!this.#buckets.take(principal.id, flow.world.clock.now(), this.#rate)) {
      const { burst } = this.#rate;
      if (isSubmission(route)) {
        flow.world.metrics.add("cordum_admission_rejected_total", { reason: "rate_limited" });
      }
      const detail = `at most ${this.#rate.perSecond} requests a second are taken from one caller (\`http.rate_per_s\`)`;
      throw new Problem("too_many_requests", detail, { current: burst, limit: burst });
    }
    return { principal, org };
  }

  #tenantOf(principal: Principal, headers: GatewayRequest["headers"]): string {
    try {
      return tenantOf(principal, headers);
    } catch (error) {
      if (error instanceof Problem && error.code === "tenant_forbidden")
        throw this.#gateway.keys.refuse(error, principal);
      throw error;
    }
  }

  #wait({ caller }: FastifyRequest, reply: FastifyReply): AbortController {
    const place = this.#places.enter(caller?.principal.id ?? ANYBODY.id);
    if (place.kind === "full") {
      const { current, limit } = place;
      throw new Problem("too_many_waiting", "end some of them, or take more work with each", { current, limit });
    }
    const wait = new AbortController();
    this.#waiting.add(wait);
    reply.raw.once("close", () => {
      place.leave();
      this.#waiting.delete(wait);
      wait.abort();
    });
    return wait;
  }
}

const isSubmission = ({ method, path }: Route): boolean => method === "POST" && path === "/api/v1/jobs";

function forbidden({ role, org }: Principal, { access, everyTenant }: Route): Problem {
  const needs = access === "system" ? "of tenant `*` and role `admin`" : everyTenant ? "of tenant `*`" : null;
  const detail = `a key of role \`${role}\` and tenant \`${org}\` has no \`${access}\` access here`;
  return new Problem("forbidden", needs === null ? detail : `${detail}; it takes one ${needs}`);
}

function readRequest(request: FastifyRequest, signal: AbortSignal): GatewayRequest {
  const { principal, org } = request.caller ?? { principal: ANYBODY, org: ANYBODY.org };
  return {
    org,
    principal,
    params: request.params as GatewayRequest["params"],
    query: request.query as GatewayRequest["query"],
    headers: request.headers,
    body: request.body,
    id: request.id,
    signal,
  };
}

function sendAnswer(reply: FastifyReply, answer: Answer, { signal }: GatewayRequest): unknown {
  reply.code(answer.status);
  if (answer.contentType) reply.type(answer.contentType);
  if (answer.headers) reply.headers(answer.headers);
  if (!answer.stream) return answer.body ?? reply.send();
  reply.hijack();
  const { raw } = reply;
  if (signal.aborted) return raw.destroy();
  raw.writeHead(answer.status, { ...(reply.getHeaders() as Record<string, string>), connection: "close" });
  raw.flushHeaders();
  const reader: Reader = {
    waitingBytes: () => raw.writableLength,
    write: (text) => {
      if (!raw.destroyed) raw.write(text);
    },
    end: () => void raw.end(),
    drop: () => void raw.destroy(),
  };
  return answer.stream(reader);
}

/** Of requests that neither wait nor stream. */
const NEVER = new AbortController().signal;
const BURST_S = 2;
/** One caller may be all the workers of a tenant. */
const PLACES_MAX = { perCaller: 1_000, all: 5_000 } as const;
