/**
 * What a route is, without any HTTP library: a method, a path, who may, what goes in and out, and a function from a
 * request to an answer. Validation and the OpenAPI document are both made from the schemas here.
 */
import type { TSchema } from "typebox";
import type { Role } from "../core/model/api-key.ts";
import type { ErrorCode } from "../core/model/errors.ts";
import type { Engine } from "../engine/engine.ts";
import type { KeyRing } from "./auth/access.ts";
import type { Verdicts } from "./routes/verdict.ts";

export interface Route {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Such as `/api/v1/jobs/:id`. */
  readonly path: string;
  readonly summary: string;
  readonly access: Access;
  /** Who has this access may call it, too. */
  readonly orAccess?: Access;
  readonly query?: TSchema;
  readonly body?: TSchema;
  /** A body in YAML is taken, too, and comes as `{source: <text>}`. */
  readonly yaml?: true;
  /** What a 200 has in it. */
  readonly answer?: TSchema;
  /** The code of the problem when query or body do not fit; `invalid_request` when not said. */
  readonly invalid?: ErrorCode;
  /** Answered while the process shuts down, too. */
  readonly always?: true;
  /** Waits for something, or streams: bounded in number, and ended (`signal`) when the process shuts down. */
  readonly long?: true;
  /** What it shows is of all tenants: only a key of tenant `*` may ask. */
  readonly everyTenant?: true;
  handle(gateway: Gateway, request: GatewayRequest): Promise<Answer>;
}

/**
 * What a route asks of whoever calls it: `open` nothing, `read` and `submit` what the names say, `operate` decisions about
 * jobs (approve, cancel, retry), `work` a worker, `admin` keys and levers of one tenant, `system` what concerns all tenants.
 */
export type Access = "open" | "read" | "submit" | "operate" | "work" | "admin" | "system";

/** Who calls, as far as it was proved. */
export interface Principal {
  /** The id of the key; `local` on loopback while there are no keys. */
  readonly id: string;
  /** Whose key it is; `*` may speak for any tenant. */
  readonly org: string;
  readonly role: Role;
}

/** What the routes work with. */
export interface Gateway {
  readonly engine: Engine;
  readonly control: Progress;
  readonly metrics: MetricsPage;
  readonly about: About;
  readonly startedMs: number;
  readonly keys: KeyRing;
  /** What the policy says to jobs that were just taken, where another process decides. */
  readonly verdicts: Verdicts;
  /** True from the moment on at which nothing new is taken. */
  isDraining(): boolean;
}

/** The control plane behind the gateway, as far as its health goes. */
export interface Progress {
  /** When the last complete sweep ended. */
  sweptMs(): number;
}

export interface MetricsPage {
  readonly contentType: string;
  text(): Promise<string>;
  /** Figures that `/status` shows beside its own. */
  figures(): object;
}

/** Facts about this process that do not change while it runs. */
export interface About {
  readonly version: string;
  readonly profile: string;
  readonly mode: "embedded" | "cluster";
  readonly durability: { readonly profile: string; readonly meaning: string };
  /** What operators should know about the servers behind it. */
  readonly warnings: readonly string[];
  /** What the servers of a cluster told about themselves; null where they do not tell. */
  readonly servers?: {
    readonly nats: { readonly version: string };
    readonly redis: {
      readonly product: string;
      readonly version: string;
      readonly durability: string;
      readonly maxmemory_policy: string | null;
    };
  };
  /** What a cluster asks of packets on its bus, and whether it signs its own. */
  readonly signatures?: { readonly mode: "off" | "warn" | "enforce"; readonly has_key: boolean };
  /** Where the safety kernel is, if not in this process. */
  readonly safety_address?: string;
  /** Whether what is said to it can be read on the way. */
  readonly safety_line?: "plain" | "tls";
}

export interface GatewayRequest {
  /** The tenant that the request is about; the principal may speak for it. */
  readonly org: string;
  readonly principal: Principal;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Parsed JSON; undefined when there was no body. */
  readonly body: unknown;
  /** Names the request in logs and in the answer's `x-request-id`. */
  readonly id: string;
  /** Fires when the client has gone, or when the process shuts down: whoever waits ends then. */
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly status: number;
  /** null for none, such as with a 204. */
  readonly body: object | string | null;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** In place of a body: called once the headers are out, writes until it ends or `signal` fires. */
  readonly stream?: (reader: Reader) => void;
}

/** Whoever reads a stream. */
export interface Reader {
  /** What was written and has not gone out yet, in bytes. */
  waitingBytes(): number;
  write(text: string): void;
  end(): void;
  /** Ends it now, whatever has not gone out yet. */
  drop(): void;
}

export function ok(body: object): Answer {
  return { status: 200, body };
}
