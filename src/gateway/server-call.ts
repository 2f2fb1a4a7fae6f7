/**
 * One request through one route: who calls, may they, is it too much, does it fit, then the handler; and its answer.
 *
 * 1. Who calls is known before the body is read: a stranger cannot make this process read a megabyte.
 * 2. A request that waits, and a stream, has a place (they are bounded) and a signal that fires when its client has gone or
 *    the process shuts down; its place is free again when the connection is.
 * 3. Who waits is asked for its key again every second: one that was revoked, or has expired, ends the wait.
 * 4. Rates and places are bounded for each caller and for each tenant: one with many keys leaves room for the others.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { EVERY_ORG } from "../core/model/api-key.ts";
import { ERRORS } from "../core/model/errors.ts";
import { ANYBODY, type Call, mayCall, tenantOf } from "./auth/access.ts";
import { Buckets, Places, type Rate } from "./auth/limits.ts";
import { Problem } from "./problem.ts";
import type { Answer, Gateway, GatewayRequest, Principal, Reader, Route } from "./route.ts";
import { openSocket, wantsSocket } from "./server-socket.ts";
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
  interface FastifyContextConfig {
    takesYaml?: boolean;
  }
}

/** What the requests of one gateway share. */
export class Calls {
  readonly #gateway: Gateway;
  readonly #rate: Rate;
  readonly #tenantRate: Rate;
  readonly #buckets = new Buckets();
  readonly #tenantBuckets = new Buckets();
  readonly #places = new Places(PLACES_MAX);
  readonly #waiting = new Set<AbortController>();

  constructor(gateway: Gateway, ratePerS: number) {
    this.#gateway = gateway;
    this.#rate = { perSecond: ratePerS, burst: ratePerS * BURST_S };
    const ofTenant = ratePerS * TENANT_SHARE;
    this.#tenantRate = { perSecond: ofTenant, burst: ofTenant * BURST_S };
  }

  add(app: FastifyInstance, route: Route): void {
    const validate = validatorOf(route);
    app.route({
      method: route.method,
      url: route.path,
      exposeHeadRoute: route.method === "GET" && !route.long,
      config: { takesYaml: route.yaml ?? false },
      onRequest: async (request) => {
        request.caller = await this.#admit(route, request);
      },
      handler: async (raw, reply) => {
        const wait = route.long ? this.#wait(raw, reply) : null;
        const request = readRequest(raw, wait?.signal ?? NEVER);
        validate(request);
        const answer = await route.handle(this.#gateway, request);
        if (answer.body === null) refuseEnded(request.signal);
        return sendAnswer(reply, answer, request);
      },
    });
  }

  /** Ends whoever waits. */
  endWaiting(): void {
    for (const wait of this.#waiting) wait.abort();
  }

  async #admit(route: Route, { headers, ip }: FastifyRequest): Promise<Caller> {
    const { isDraining, keys, engine } = this.#gateway;
    if (isDraining() && !route.always) {
      throw new Problem("shutting_down", "send it again: another process, or this one after its restart, will take it");
    }
    if (route.access === "open") return { principal: ANYBODY, org: ANYBODY.org };
    const principal = await keys.identify({ headers, ip });
    if (!mayCall(principal, route)) throw keys.refuse(forbidden(principal, route), principal);
    const org = this.#tenantOf(principal, headers);
    const exceeded = this.#spend(principal);
    if (exceeded === null) return { principal, org };
    if (isSubmission(route)) engine.world.metrics.add("cordum_admission_rejected_total", { reason: "rate_limited" });
    const { rate, whose } = exceeded;
    const detail = `at most ${rate.perSecond} requests a second are taken from one ${whose} (see \`http.rate_per_s\`)`;
    throw new Problem("too_many_requests", detail, { current: rate.burst, limit: rate.burst });
  }

  /** Takes from the caller and from its tenant, or from neither: what is refused costs nothing. */
  #spend({ id, org }: Principal): { readonly rate: Rate; readonly whose: "caller" | "tenant" } | null {
    const nowMs = this.#gateway.engine.world.clock.now();
    if (this.#buckets.left(id, nowMs, this.#rate) < 1) return { rate: this.#rate, whose: "caller" };
    // Keys of `*` are the operators': what a tenant does must not keep them out, nor what one of them does the others.
    if (org !== EVERY_ORG && !this.#tenantBuckets.take(org, nowMs, this.#tenantRate)) {
      return { rate: this.#tenantRate, whose: "tenant" };
    }
    this.#buckets.take(id, nowMs, this.#rate);
    return null;
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

  #wait({ caller, headers, ip }: FastifyRequest, reply: FastifyReply): AbortController {
    const { id, org } = caller?.principal ?? ANYBODY;
    const place = this.#places.enter(id, org === EVERY_ORG ? null : org);
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
    if (caller !== null && caller.principal !== ANYBODY) this.#askAgain(wait, { headers, ip });
    return wait;
  }

  /** What was let in does not stay in for ever: a wait ends when its key does. */
  #askAgain(wait: AbortController, call: Call): void {
    const { engine, keys } = this.#gateway;
    let stop = () => {};
    const ask = async () => {
      const refused = await keys.identify(call).then(() => null, refusalIn);
      if (wait.signal.aborted) return;
      if (refused) wait.abort(refused);
      else stop = engine.world.clock.after(ASKED_EVERY_MS, ask);
    };
    stop = engine.world.clock.after(ASKED_EVERY_MS, ask);
    wait.signal.addEventListener("abort", () => stop(), { once: true });
  }
}

/** A store that does not answer says nothing about the key: whoever waits goes on, and is asked again. */
const refusalIn = (error: unknown): Problem | null =>
  error instanceof Problem && ERRORS[error.code].status === 401 ? error : null;

/** Nothing came before the key ended: then that is the answer. */
function refuseEnded({ aborted, reason }: AbortSignal): void {
  if (aborted && reason instanceof Problem) throw reason;
}

const isSubmission = ({ method, path }: Route): boolean => method === "POST" && STARTS.includes(path);

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
  if (wantsSocket(reply.request.raw) && !signal.aborted) return openSocket(reply, answer.stream);
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
const STARTS: readonly string[] = ["/api/v1/jobs", "/api/v1/workflows/:id/runs"];
const BURST_S = 2;
/** A tenant has as much as so many callers, however many keys it makes. */
const TENANT_SHARE = 2;
const ASKED_EVERY_MS = 1_000;
/** One caller may be all the workers of a tenant. */
const PLACES_MAX = { perCaller: 1_000, perTenant: 2_000, all: 5_000 } as const;
