/** What a route is, without any HTTP library: a method, a path, and a function from a request to an answer. */
import type { Flow } from "../flow/flow.ts";

export interface Route {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Answered while the process shuts down, too. */
  readonly always?: true;
  handle(gateway: Gateway, request: GatewayRequest): Promise<Answer>;
}

/** What the routes work with. */
export interface Gateway {
  readonly flow: Flow;
  readonly control: Progress;
  readonly metrics: MetricsPage;
  readonly about: About;
  readonly startedMs: number;
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
  readonly policy: {
    readonly source: string;
    readonly version: string | null;
    readonly snapshot: string;
    readonly rules: number;
    readonly default_decision: string;
  };
}

export interface GatewayRequest {
  readonly org: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Parsed JSON; undefined when there was no body. */
  readonly body: unknown;
}

export interface Answer {
  readonly status: number;
  readonly body: object | string;
  readonly contentType?: string;
}

export function ok(body: object): Answer {
  return { status: 200, body };
}
