/**
 * Those who want a run. A caller that was told 429 or 503 comes back as its kind of client does, at the next replica, until
 * it is let in or its patience is over.
 */

import { nextDelay, type Policy } from "../../core/retry/policies.ts";
import type { Engine } from "../../engine/engine.ts";
import { defaultRunRequest, type RunRequest, startRun } from "../../engine/intake/index.ts";
import { problemResponse, toProblem } from "../../gateway/problem.ts";
import { startOutcomeResponse } from "../../gateway/routes/run-start.ts";
import type { SeededRandom } from "../../sim/random.ts";

export const ORG = "busy";
/** The other org, and its own workflow: one that is over as soon as it is begun. */
export const BESIDE = "beside";
export const WORKFLOWS = { hold: "lab-hold", pass: "lab-pass" } as const;

/** `told`: comes back when `Retry-After` says so. The others never look at it. */
export type Client = { readonly kind: "none" | "told" } | { readonly kind: "policy"; readonly policy: Policy };

export interface ClientOrder {
  readonly callers: number;
  readonly client: Client;
  /** How long a caller goes on; it does not begin a wait that would end later. */
  readonly budgetMs: number;
  readonly besidePerS: number;
  readonly besideForMs: number;
}

/** What lies between callers and servers: simulated, or of the machine. */
export interface Street {
  nowMs(): number;
  pause(delayMs: number): Promise<void>;
  /** One way between a caller and its server. */
  hop(): Promise<void>;
  readonly random: SeededRandom;
  /** Who is asked by the request with this number. */
  server(count: number): Engine;
}

export interface Caller {
  /** Of each of its requests. */
  readonly answers: readonly Answered[];
  /** How long it took until it was let in; null for never. */
  readonly waitedMs: number | null;
}

export interface Answered {
  readonly status: number;
  readonly tookMs: number;
  readonly sentMs: number;
}

/** All at once. Callers are what became of them so far, and `done` resolves when none goes on. */
export function callAll(
  street: Street,
  order: ClientOrder,
): { readonly callers: readonly Caller[]; readonly done: Promise<void> } {
  const callers = Array.from({ length: order.callers }, (): OpenCaller => ({ answers: [], waitedMs: null }));
  const all = callers.map((caller, index) => call(street, order, index, caller));
  return { callers, done: Promise.all(all).then(() => undefined) };
}

/** The other org: a request now and then, for each of which it has a slot. Resolves when it sends no more. */
export async function callBeside(
  street: Street,
  { besidePerS, besideForMs }: Pick<ClientOrder, "besidePerS" | "besideForMs">,
  answers: Answered[],
): Promise<void> {
  if (besidePerS <= 0) return;
  const endMs = street.nowMs() + besideForMs;
  const sent: Promise<unknown>[] = [];
  for (let count = 0; ; count += 1) {
    await street.pause(street.random.exponential(1_000 / besidePerS));
    if (street.nowMs() >= endMs) break;
    sent.push(askBeside(street, count).then((answer) => answers.push(answer)));
  }
  await Promise.all(sent);
}

/** One request of the other org. */
export async function askBeside(street: Street, count: number): Promise<Answered> {
  const { retryAfterMs: _, ...answer } = await request(street, count, {
    ...WISH,
    org: BESIDE,
    workflowId: WORKFLOWS.pass,
  });
  return answer;
}

interface OpenCaller {
  readonly answers: Answered[];
  waitedMs: number | null;
}

async function call(
  street: Street,
  { client, budgetMs }: ClientOrder,
  index: number,
  caller: OpenCaller,
): Promise<void> {
  const fromMs = street.nowMs();
  let delayMs: number | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const { retryAfterMs, ...answer } = await request(street, index + attempt, WISH);
    caller.answers.push(answer);
    if (answer.status === 200) {
      caller.waitedMs = street.nowMs() - fromMs;
      return;
    }
    delayMs = delayOf(client, attempt, street.random, delayMs, retryAfterMs) ?? Number.POSITIVE_INFINITY;
    if (street.nowMs() - fromMs + delayMs > budgetMs) return;
    await street.pause(delayMs);
  }
}

/** null: it does not come back. */
function delayOf(
  client: Client,
  attempt: number,
  random: SeededRandom,
  previousMs: number | undefined,
  retryAfterMs: number | null,
): number | null {
  switch (client.kind) {
    case "none":
      return null;
    case "told":
      return retryAfterMs;
    case "policy":
      return nextDelay(client.policy, attempt, () => random.next(), previousMs);
    default:
      return client satisfies never;
  }
}

/** One request over HTTP, as the gateway answers it. */
async function request(
  street: Street,
  count: number,
  request: RunRequest,
): Promise<Answered & { readonly retryAfterMs: number | null }> {
  const engine = street.server(count);
  const sentMs = street.nowMs();
  await street.hop();
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
  await street.hop();
  return { status, retryAfterMs, sentMs, tookMs: street.nowMs() - sentMs };
}

const WISH = defaultRunRequest(ORG, WORKFLOWS.hold, "lab");
