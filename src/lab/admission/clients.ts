/** Callers that start runs. A rejected caller (429 or 503) retries at the next replica until its budget is used up. */

import { nextDelay, type Policy } from "../../core/retry/policies.ts";
import type { Engine } from "../../engine/engine.ts";
import { defaultRunRequest, type RunRequest, startRun } from "../../engine/intake/index.ts";
import { problemResponse, toProblem } from "../../gateway/problem.ts";
import { startOutcomeResponse } from "../../gateway/routes/run-start.ts";
import type { SeededRandom } from "../../sim/random.ts";

export const ORG = "busy";
/** The second org, whose runs complete at once. */
export const OTHER_ORG = "beside";
export const WORKFLOWS = { hold: "lab-hold", pass: "lab-pass" } as const;

/** `retry_after` retries after the time in `Retry-After`; the others ignore that header. */
export type Client = { readonly kind: "none" | "retry_after" } | { readonly kind: "policy"; readonly policy: Policy };

export interface CallersSpec {
  readonly callers: number;
  readonly client: Client;
  /** No retry starts after this time. */
  readonly budgetMs: number;
}

/** Request rate of the other org and its duration. */
export interface OtherSpec {
  readonly otherRate: number;
  readonly otherForMs: number;
}

/** The path between callers and servers, simulated or real. */
export interface Transport {
  nowMs(): number;
  pause(delayMs: number): Promise<void>;
  /** One way between a caller and its server. */
  hop(): Promise<void>;
  readonly random: SeededRandom;
  /** The server of the nth request. */
  server(count: number): Engine;
}

export interface Caller {
  readonly responses: readonly Response[];
  /** Time until admission; null if it was not admitted. */
  readonly waitedMs: number | null;
}

export interface Response {
  readonly status: number;
  readonly tookMs: number;
  readonly sentMs: number;
}

/** Starts all callers at once. `callers` is updated until `done` resolves. */
export function startCallers(
  transport: Transport,
  spec: CallersSpec,
): { readonly callers: readonly Caller[]; readonly done: Promise<void> } {
  const callers = Array.from({ length: spec.callers }, (): OpenCaller => ({ responses: [], waitedMs: null }));
  const all = callers.map((caller, index) => call(transport, spec, index, caller));
  return { callers, done: Promise.all(all).then(() => undefined) };
}

/** A Poisson stream of requests of the other org. Resolves after the last response. */
export async function runOtherOrg(
  transport: Transport,
  { otherRate, otherForMs }: OtherSpec,
  responses: Response[],
): Promise<void> {
  if (otherRate <= 0) return;
  const endMs = transport.nowMs() + otherForMs;
  const sent: Promise<unknown>[] = [];
  for (let count = 0; ; count += 1) {
    await transport.pause(transport.random.exponential(1_000 / otherRate));
    if (transport.nowMs() >= endMs) break;
    sent.push(requestOther(transport, count).then((response) => responses.push(response)));
  }
  await Promise.all(sent);
}

export async function requestOther(transport: Transport, count: number): Promise<Response> {
  const { retryAfterMs: _, ...response } = await send(transport, count, OTHER_REQUEST);
  return response;
}

interface OpenCaller {
  readonly responses: Response[];
  waitedMs: number | null;
}

async function call(
  transport: Transport,
  { client, budgetMs }: CallersSpec,
  index: number,
  caller: OpenCaller,
): Promise<void> {
  const fromMs = transport.nowMs();
  let delayMs: number | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const { retryAfterMs, ...response } = await send(transport, index + attempt, REQUEST);
    caller.responses.push(response);
    if (response.status === 200) {
      caller.waitedMs = transport.nowMs() - fromMs;
      return;
    }
    delayMs = retryDelay(client, attempt, transport.random, delayMs, retryAfterMs) ?? Number.POSITIVE_INFINITY;
    if (transport.nowMs() - fromMs + delayMs > budgetMs) return;
    await transport.pause(delayMs);
  }
}

/** null: no retry. */
function retryDelay(
  client: Client,
  attempt: number,
  random: SeededRandom,
  previousMs: number | undefined,
  retryAfterMs: number | null,
): number | null {
  switch (client.kind) {
    case "none":
      return null;
    case "retry_after":
      return retryAfterMs;
    case "policy":
      return nextDelay(client.policy, attempt, () => random.next(), previousMs);
    default:
      return client satisfies never;
  }
}

/** One request, with the status and headers of the gateway. */
async function send(
  transport: Transport,
  count: number,
  request: RunRequest,
): Promise<Response & { readonly retryAfterMs: number | null }> {
  const engine = transport.server(count);
  const sentMs = transport.nowMs();
  await transport.hop();
  let status = 200;
  let retryAfterMs: number | null = null;
  try {
    startOutcomeResponse(await startRun(engine, request, "lab"), request);
  } catch (error) {
    const answer = problemResponse(toProblem(error), () => engine.world.random.next());
    status = answer.status;
    if (status !== 429 && status !== 503) throw error;
    retryAfterMs = Number(answer.body.retry_after_ms ?? Number.NaN);
  }
  await transport.hop();
  return { status, retryAfterMs, sentMs, tookMs: transport.nowMs() - sentMs };
}

const REQUEST = defaultRunRequest(ORG, WORKFLOWS.hold, "lab");
const OTHER_REQUEST: RunRequest = { ...REQUEST, org: OTHER_ORG, workflowId: WORKFLOWS.pass };
