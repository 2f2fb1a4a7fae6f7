/**
 * Those who want a run. A caller that was told 429 or 503 comes back as its kind of client does, at the next replica, until
 * it is let in or its patience is over.
 */
import type { Flow } from "../flow/flow.ts";
import { type RunWish, startRun } from "../flow/start-run.ts";
import { answerFor, problemFrom } from "../gateway/problem.ts";
import { startedAnswer } from "../gateway/run-start.ts";
import { nextDelay, type Policy } from "../retry/policies.ts";
import { latency } from "../sim/net.ts";
import type { SeededRandom } from "../sim/random.ts";
import type { SimNet } from "../sim/world.ts";

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

export interface Caller {
  readonly done: Promise<void>;
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

export function callAll(
  net: SimNet,
  random: SeededRandom,
  flows: readonly Flow[],
  order: ClientOrder,
): readonly Caller[] {
  return Array.from({ length: order.callers }, (_, index) => {
    const answers: Answered[] = [];
    const caller = { answers, waitedMs: null as number | null };
    const done = call(net, random, flows, order, index, caller);
    return Object.assign(caller, { done });
  });
}

/** The other org: a request now and then, for each of which it has a slot. */
export function callBeside(
  net: SimNet,
  random: SeededRandom,
  flows: readonly Flow[],
  { besidePerS, besideForMs }: ClientOrder,
  answers: Answered[],
): void {
  if (besidePerS <= 0) return;
  const { timeline } = net;
  const endMs = timeline.nowMs + besideForMs;
  let count = 0;
  const next = (): void => {
    timeline.post(random.exponential(1_000 / besidePerS), () => {
      if (timeline.nowMs >= endMs) return;
      const flow = flows[count % flows.length]!;
      count += 1;
      const wish = { ...WISH, org: BESIDE, workflowId: WORKFLOWS.pass };
      void request(net, random, flow, wish).then((answer) => answers.push(answer));
      next();
    });
  };
  next();
}

async function call(
  net: SimNet,
  random: SeededRandom,
  flows: readonly Flow[],
  { client, budgetMs }: ClientOrder,
  index: number,
  caller: { readonly answers: Answered[]; waitedMs: number | null },
): Promise<void> {
  const { timeline } = net;
  const fromMs = timeline.nowMs;
  let delayMs: number | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const flow = flows[(index + attempt) % flows.length]!;
    const { retryAfterMs, ...answer } = await request(net, random, flow, { ...WISH, org: ORG });
    caller.answers.push(answer);
    if (answer.status === 200) {
      caller.waitedMs = timeline.nowMs - fromMs;
      return;
    }
    delayMs = delayOf(client, attempt, random, delayMs, retryAfterMs) ?? Number.POSITIVE_INFINITY;
    if (timeline.nowMs - fromMs + delayMs > budgetMs) return;
    await after(net, delayMs);
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
  net: SimNet,
  random: SeededRandom,
  flow: Flow,
  wish: RunWish,
): Promise<Answered & { readonly retryAfterMs: number | null }> {
  const { timeline, faults } = net;
  const sentMs = timeline.nowMs;
  await after(net, latency(random, faults.bus));
  let status = 200;
  let retryAfterMs: number | null = null;
  try {
    startedAnswer(await startRun(flow, wish, "lab"), wish);
  } catch (error) {
    const answer = answerFor(problemFrom(error), () => flow.world.random.next());
    status = answer.status;
    if (status !== 429 && status !== 503) throw error;
    retryAfterMs = Number(answer.body.retry_after_ms ?? Number.NaN);
  }
  await after(net, latency(random, faults.bus));
  return { status, retryAfterMs, sentMs, tookMs: timeline.nowMs - sentMs };
}

const after = (net: SimNet, ms: number): Promise<void> => new Promise((resolve) => net.timeline.post(ms, resolve));

const WISH: RunWish = {
  org: ORG,
  workflowId: WORKFLOWS.hold,
  version: null,
  input: null,
  labels: {},
  priority: null,
  idempotencyKey: null,
  traceId: null,
  traceparent: null,
  submittedBy: "lab",
  actorId: null,
};
