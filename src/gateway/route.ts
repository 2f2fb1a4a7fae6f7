/**
 * Routes, independent of the HTTP library: method, path, required access, schemas, and a handler.
 * Request validation and the OpenAPI document are both derived from the schemas.
 */
import type { TSchema } from "typebox";
import type { Config } from "../config/config.ts";
import type { Role } from "../core/model/api-key.ts";
import type { Caller } from "../core/model/caller.ts";
import type { ErrorCode } from "../core/model/errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { StartOutcome } from "../engine/intake/index.ts";
import type { DutyStatus } from "../engine/maintenance/index.ts";
import type { EventReplay, LoadGauges, Throughput } from "../engine/observe/index.ts";
import type { KeyAuthenticator } from "./auth/access.ts";
import type { Approvers } from "./auth/approvers.ts";
import type { Sessions } from "./auth/sessions.ts";
import type { Lab } from "./lab.ts";
import type { DecisionWaiter } from "./routes/submit.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Such as `/api/v1/jobs/:id`. */
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  /** An alternative to `access`. */
  readonly orAccess?: Access;
  readonly query?: TSchema;
  readonly body?: TSchema;
  /** Also accepts a YAML body, passed to the handler as `{source: <text>}`. */
  readonly acceptsYaml?: true;
  /** Schema of the 200 response. */
  readonly response?: TSchema;
  /** Media type of the 200 response; JSON by default. */
  readonly produces?: string;
  /** When the response is a 204 without a body. */
  readonly emptyWhen?: string;
  /** Error code of a failed validation; `invalid_request` by default. */
  readonly invalidCode?: ErrorCode;
  /** Also served while the process shuts down, and on the connections reserved for health checks. */
  readonly isHealth?: true;
  /** A long poll or a stream: limited in number, and aborted (`signal`) on shutdown. */
  readonly longLived?: true;
  /** Counts towards the stream quota of the tenant. */
  readonly isStream?: true;
  /** The response covers all tenants: requires a key of tenant `*`. */
  readonly allTenants?: true;
  handle(gateway: Gateway, request: GatewayRequest): Promise<GatewayResponse>;
}

/**
 * `open` needs no key. `operate` covers decisions about jobs and runs (approve, pause, retry), `work` the worker API,
 * `admin` the keys and switches of one tenant, `system` everything that affects all tenants.
 */
export type Access = "open" | "read" | "submit" | "operate" | "work" | "admin" | "system";

/** The authenticated caller. */
export interface Principal {
  /** The key id; `local` for the start-up token. */
  readonly id: string;
  /** The tenant of the key; `*` may act for any tenant. */
  readonly org: string;
  readonly role: Role;
  readonly caller: Caller;
}

/** The dependencies of the routes. */
export interface Gateway {
  readonly engine: Engine;
  readonly sweeper: SweeperStatus;
  readonly metrics: MetricsEndpoint;
  readonly loadGauges: LoadGauges;
  readonly info: ServerInfo;
  readonly startedMs: number;
  /** The configuration in force, with reloads. */
  config(): Config;
  readonly auth: KeyAuthenticator;
  readonly sessions: Sessions;
  readonly approvers: Approvers;
  readonly decisions: DecisionWaiter;
  readonly replay: EventReplay;
  readonly throughput: Throughput;
  /** Null: this process runs no experiments. */
  readonly lab: Lab | null;
  /** Incidents that a demo can cause; null without `--demo`. */
  readonly demo: DemoControls | null;
  /** Signs audit checkpoints; null without a key. */
  readonly signer: CheckpointSigner | null;
  /** True once shutdown has begun: the process is not ready, but still serves requests. */
  isDraining(): boolean;
  /** True after the grace period of the shutdown: new requests are rejected. */
  isClosing(): boolean;
}

export interface DemoControls {
  readonly isKernelStopped: boolean;
  /** Stops or restarts the answers of the safety kernel. */
  setKernelStopped(isStopped: boolean, by: string): void;
  /** Null if none is held now. */
  readonly hotLock: HotLock | null;
  /** Holds and releases one run lock while many results wait for it. */
  heatLock(
    by: string,
  ): Promise<
    { readonly kind: "hot"; readonly lock: HotLock } | { readonly kind: "not_started"; readonly outcome: StartOutcome }
  >;
}

export interface HotLock {
  readonly lock: string;
  readonly runId: string;
  readonly untilMs: number;
}

export interface CheckpointSigner {
  /** Ed25519, base64. */
  sign(text: string): string;
  /** PEM. */
  publicKey(): string;
}

/** The background loops of this process; empty in a gateway process. */
export interface SweeperStatus {
  duties(): readonly DutyStatus[];
}

export interface MetricsEndpoint {
  readonly contentType: string;
  text(): Promise<string>;
  /** Summary figures for `/status`. */
  figures(): object;
}

/** Constant facts about this process. */
export interface ServerInfo {
  readonly version: string;
  readonly profile: string;
  readonly mode: "embedded" | "cluster";
  readonly durability: { readonly profile: string; readonly meaning: string };
  /** Warnings about the backing servers, for operators. */
  readonly warnings: readonly string[];
  /** Warnings that are determined for each status request. */
  readonly currentWarnings?: () => readonly string[];
  /** The backing servers of a cluster. */
  readonly servers?: {
    readonly nats: { readonly version: string };
    readonly redis: {
      readonly product: string;
      readonly version: string;
      readonly durability: string;
      /** null when the server does not report it. */
      readonly maxmemory_policy: string | null;
      /** When this process found acknowledged writes missing; null if never. */
      readonly went_back_at: string | null;
    };
  };
  /** Verification of packet signatures on the bus, and whether this process signs its own packets. */
  readonly signatures?: { readonly mode: "off" | "warn" | "enforce"; readonly has_key: boolean };
  /** The address of a remote safety kernel. */
  readonly safety_address?: string;
  /** Transport security of the connection to it. */
  readonly safety_line?: "plain" | "tls";
}

export interface GatewayRequest {
  /** The tenant of the request; the principal is allowed to act for it. */
  readonly org: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Parsed JSON; undefined without a body. */
  readonly body: unknown;
  /** The remote address. */
  readonly ip: string;
  /** The `x-request-id` of the response and of log lines. */
  readonly id: string;
  /** Aborted when the client disconnects or the process shuts down. */
  readonly signal: AbortSignal;
}

export interface GatewayResponse {
  readonly status: number;
  /** null for an empty body, as with a 204. */
  readonly body: object | string | null;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** In place of a body: called once after the headers were sent, writes until it ends the sink. */
  readonly stream?: (sink: EventSink) => void;
}

/** The client side of an event stream: server-sent events or a WebSocket. */
export interface EventSink {
  /** Bytes written but not yet sent. */
  bufferedBytes(): number;
  /** `data` is JSON. */
  event(name: string, data: string, id: string): void;
  /** `id`: the current position of the stream, for a client that has received no event for long. */
  heartbeat(id: string): void;
  end(reason: string): void;
  /** Closes the connection at once and discards unsent bytes. */
  drop(): void;
}

export function ok(body: object): GatewayResponse {
  return { status: 200, body };
}
