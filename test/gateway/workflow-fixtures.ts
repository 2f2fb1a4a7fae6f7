/** Workflows that the tests of the gateway apply and start, and a way to wait for runs. */
import { startWorker } from "../../src/worker/worker.ts";
import type { CallOptions, TestGateway } from "./test-gateway.ts";

/** An expression as it stands in a template. */
export const cel = (expression: string): string => `\${${expression}}`;

export type Json = Readonly<Record<string, unknown>>;

/** A worker step, and a fan-out over what it gives. */
export const ORDER = {
  id: "order",
  name: "An order",
  output: { packed: cel("steps.pack.output") },
  steps: {
    price: { topic: "demo.price" },
    pack: { topic: "demo.pack", depends_on: ["price"], for_each: "input.items", input: cel("item") },
  },
} as const;

/** A step that waits for a human. */
export const SIGNED = {
  id: "signed",
  steps: {
    sign: { type: "approval", reason: `sign ${cel("input.what")}` },
    done: { type: "transform", depends_on: ["sign"], input: { by: cel("steps.sign.output.approved_by") } },
  },
} as const;

/** One that stays open until somebody does `work`. */
export const OPEN = { id: "open", steps: { work: { topic: "nobody.works" } } } as const;

export async function applied(gateway: TestGateway, body: object, options: CallOptions = {}): Promise<void> {
  const answer = await gateway.call("POST", "/api/v1/workflows", { ...options, body });
  if (answer.statusCode !== 200) throw new Error(answer.body);
}

export async function started(
  gateway: TestGateway,
  workflowId: string,
  body: object = {},
  options: CallOptions = {},
): Promise<string> {
  const answer = await gateway.call("POST", `/api/v1/workflows/${workflowId}/runs`, { ...options, body });
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<{ run_id: string }>().run_id;
}

/** A worker that answers with what it was given. */
export function echoes(gateway: TestGateway, topics: readonly string[]): Promise<unknown> {
  const handle = async ({ input }: { readonly input: unknown }) => ({ got: input });
  return startWorker(gateway.world, { id: "echo", topics, concurrency: 4, handle });
}

/** Resolves to the run once `holds` is true of it: looked at now, and whenever it was written. */
export async function runUntil(
  gateway: TestGateway,
  runId: string,
  holds: (run: Json) => boolean,
  options: CallOptions = {},
): Promise<Json> {
  let tell = (): void => {};
  const stop = gateway.engine.events.subscribeRuns((notice) => {
    if (notice.runId === runId) tell();
  });
  try {
    for (;;) {
      const news = new Promise<void>((resolve) => {
        tell = resolve;
      });
      const run = (await gateway.call("GET", `/api/v1/workflow-runs/${runId}`, options)).json<Json>();
      if (holds(run)) return run;
      await news;
    }
  } finally {
    stop();
  }
}

export const runIs = (gateway: TestGateway, runId: string, state: string): Promise<Json> =>
  runUntil(gateway, runId, (run) => run.state === state);
