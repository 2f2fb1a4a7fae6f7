import { defaultConfig } from "../config/config.ts";
import { EVERY_ORG, type Role } from "../core/model/api-key.ts";
import { ERRORS } from "../core/model/errors.ts";
import type { Engine } from "../engine/engine.ts";
import { EventReplay, LoadGauges, Throughput } from "../engine/observe/index.ts";
import { KeyAuthenticator } from "../gateway/auth/access.ts";
import { Approvers } from "../gateway/auth/approvers.ts";
import { Sessions } from "../gateway/auth/sessions.ts";
import { JOB_BULK_ROUTES } from "../gateway/bulk/job-bulk.ts";
import { type Problem, toProblem } from "../gateway/problem.ts";
import type { Gateway, GatewayRequest, GatewayResponse, Principal, Route } from "../gateway/route.ts";
import { APPROVAL_ROUTES } from "../gateway/routes/approvals.ts";
import { DEAD_LETTER_ROUTES } from "../gateway/routes/dead-letters.ts";
import { JOB_ROUTES } from "../gateway/routes/jobs.ts";
import { POLICY_ROUTES } from "../gateway/routes/policy.ts";
import { RUN_CONTROL_ROUTES } from "../gateway/routes/run-control.ts";
import { RUN_ROUTES } from "../gateway/routes/runs.ts";
import { DecisionWaiter } from "../gateway/routes/submit.ts";
import { WORKFLOW_ROUTES } from "../gateway/routes/workflows.ts";
import { createValidator, type Validate } from "../gateway/validate.ts";
import { PlaneError, requestError } from "./plane-error.ts";
import type { TestSystem } from "./test-system.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** The caller of a request. */
export interface RequestAs {
  /** The key id of the caller: who submits, approves, cancels. */
  readonly by?: string;
  /** The tenant; `default` if omitted. */
  readonly tenant?: string;
  /** The role of the key; `admin` if omitted. */
  readonly role?: Role;
  /** The owner of the key, for policies and for approvals of own jobs. */
  readonly person?: string;
}

export interface PlaneRequest {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly as?: RequestAs | undefined;
  /** Creates something: retries after an unknown outcome need an idempotency key. */
  readonly creates?: boolean;
  /** The response if a retry finds that an earlier attempt has taken effect; null: the problem stands. */
  readonly afterRetry?: (problem: Problem) => object | null;
}

/**
 * Sends requests to the routes of the gateway without HTTP: same validation, same views, same problems. A 503 is retried in
 * virtual time, as clients do.
 */
export class Requests {
  readonly #system: TestSystem;
  readonly #time: VirtualTime;
  readonly #hasFaults: boolean;
  readonly #routes = new Map<string, { readonly route: Route; readonly validate: Validate }>();
  #gateway: Gateway | null = null;
  #sent = 0;

  constructor(system: TestSystem, time: VirtualTime, hasFaults: boolean) {
    this.#system = system;
    this.#time = time;
    this.#hasFaults = hasFaults;
  }

  async send<T>(name: string, request: PlaneRequest = {}): Promise<T> {
    this.#sent += 1;
    const number = this.#sent;
    const random = this.#system.random.fork(`request ${number}`);
    const key = request.creates && this.#hasFaults ? { "idempotency-key": `test-plane-${number}` } : {};
    for (let attempt = 1; ; attempt += 1) {
      try {
        return (await this.#sendOnce(name, request, key)) as T;
      } catch (thrown) {
        if (thrown instanceof PlaneError) throw thrown;
        const problem = toProblem(thrown);
        const known = attempt > 1 ? request.afterRetry?.(problem) : null;
        if (known) return known as T;
        if (ERRORS[problem.code].status !== 503 || attempt >= ATTEMPTS_MAX) throw requestError(problem);
        const untilMs = this.#time.timelineMs + random.between(100, 1_000);
        await this.#time.reach({ check: () => false, untilMs, onTimeout: null });
      }
    }
  }

  #sendOnce(name: string, request: PlaneRequest, headers: GatewayRequest["headers"]): Promise<unknown> {
    const { route, validate } = this.#routeOf(name);
    const { params = {}, query = {}, body, as = {} } = request;
    const signal = new AbortController().signal;
    const principal = principalOf(as);
    const received: GatewayRequest = {
      ...{ org: as.tenant ?? DEFAULT_TENANT, principal, params, query, headers, ip: LOOPBACK, id: "test", signal },
      body: body === undefined ? undefined : jsonOf(body),
    };
    const onTimeout = () => new PlaneError("limit_reached", `no response to \`${name}\` within a virtual hour`);
    return this.#time.settled(
      () =>
        new Promise((resolve, reject) => {
          const { process } = this.#system.gateway;
          process.enter(() => {
            const responding = async (): Promise<GatewayResponse> => {
              validate(received);
              return route.handle(this.#gatewayOf(), received);
            };
            responding().then(({ body: response }) => resolve(response), reject);
          });
        }),
      RESPONSE_MS_MAX,
      onTimeout,
    );
  }

  #routeOf(name: string): { readonly route: Route; readonly validate: Validate } {
    let found = this.#routes.get(name);
    if (found === undefined) {
      const route = ROUTES.find(({ method, path }) => `${method} ${path}` === `${name.replace(" ", " /api/v1")}`);
      if (route === undefined) throw new Error(`no route \`${name}\``);
      found = { route, validate: createValidator(route) };
      this.#routes.set(name, found);
    }
    return found;
  }

  #gatewayOf(): Gateway {
    const { engine } = this.#system.gateway;
    if (this.#gateway?.engine !== engine) this.#gateway = gatewayOn(engine);
    return this.#gateway;
  }
}

function gatewayOn(engine: Engine): Gateway {
  const sessions = new Sessions(engine, { idleMs: 3_600_000, maxMs: 43_200_000 });
  const durability = { profile: "memory", meaning: "nothing outlives the test" };
  return {
    engine,
    sweeper: { duties: () => [] },
    metrics: { contentType: "text/plain", text: async () => "", figures: () => ({}) },
    info: { version: "test", profile: "default", mode: "embedded", durability, warnings: [] },
    startedMs: engine.world.clock.now(),
    config: defaultConfig,
    auth: new KeyAuthenticator(engine, null, sessions),
    sessions,
    approvers: new Approvers(engine),
    loadGauges: new LoadGauges(),
    decisions: new DecisionWaiter(engine),
    replay: new EventReplay(engine),
    throughput: new Throughput(engine),
    demo: null,
    lab: null,
    signer: null,
    isDraining: () => false,
    isClosing: () => false,
  };
}

const LOOPBACK = "127.0.0.1";

function principalOf({ by = DEFAULT_CALLER, tenant = DEFAULT_TENANT, role = "admin", person }: RequestAs): Principal {
  const org = by === OPERATOR ? EVERY_ORG : tenant;
  return { id: by, org, role, caller: { role, ...(person === undefined ? {} : { person }) } };
}

/** Requests are JSON: what a client cannot send does not reach the engine. */
function jsonOf(body: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(body));
  } catch (error) {
    throw new PlaneError("invalid_options", `the request is no JSON: ${String(error)}`, { cause: error });
  }
}

/** Applies definitions and publishes policies. */
export const OPERATOR = "test-plane";
const DEFAULT_CALLER = "tester";
const DEFAULT_TENANT = "default";
const ATTEMPTS_MAX = 1_000;
const RESPONSE_MS_MAX = 3_600_000;
const ROUTES: readonly Route[] = [
  ...JOB_ROUTES,
  ...JOB_BULK_ROUTES,
  ...WORKFLOW_ROUTES,
  ...RUN_ROUTES,
  ...RUN_CONTROL_ROUTES,
  ...APPROVAL_ROUTES,
  ...DEAD_LETTER_ROUTES,
  ...POLICY_ROUTES,
];
