/** Workflow definitions and helpers to apply, start and await them. */
import { startWorker } from "../../src/worker/worker.ts";
import type { CallOptions, TestGateway } from "./test-gateway.ts";

/** A template expression. */
export const cel = (expression: string): string => `\${${expression}}`;

export type Json = Readonly<Record<string, unknown>>;

/** A worker step and a `for_each` step. */
export const ORDER = {
  id: "order",
  name: "An order",
  output: { packed: cel("steps.pack.output") },
  steps: {
    price: { topic: "demo.price" },
    pack: { topic: "demo.pack", depends_on: ["price"], for_each: "input.items", input: cel("item") },
  },
} as const;

/** An approval step. */
export const SIGNED = {
  id: "signed",
  steps: {
    sign: { type: "approval", reason: `sign ${cel("input.what")}` },
    done: { type: "transform", depends_on: ["sign"], input: { by: cel("steps.sign.output.approved_by") } },
  },
} as const;

/** Stays open: its topic has no worker. */
export const OPEN = { id: "open", steps: { work: { topic: "demo.unserved" } } } as const;

export async function applied(gateway: TestGateway, body: object, options: CallOptions = {}): Promise<void> {
  const response = await gateway.call("POST", "/api/v1/workflows", { ...options, body });
  if (response.statusCode !== 200) throw new Error(response.body);
}

export async function started(
  gateway: TestGateway,
  workflowId: string,
  body: object = {},
  options: CallOptions = {},
): Promise<string> {
  const response = await gateway.call("POST", `/api/v1/workflows/${workflowId}/runs`, { ...options, body });
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<{ run_id: string }>().run_id;
}

/** A worker that returns its input. */
export function echoes(gateway: TestGateway, topics: readonly string[]): Promise<unknown> {
  const handle = async ({ input }: { readonly input: unknown }) => ({ got: input });
  return startWorker(gateway.world, { id: "echo", topics, concurrency: 4, handle });
}

/** Resolves to the run once `holds` is true. Checked now and after every write of the run. */
export async function runUntil(
  gateway: TestGateway,
  runId: string,
  holds: (run: Json) => boolean,
  options: CallOptions = {},
): Promise<Json> {
  let onUpdate = (): void => {};
  const stop = gateway.engine.events.subscribeRuns((update) => {
    if (update.runId === runId) onUpdate();
  });
  try {
    for (;;) {
      const updated = new Promise<void>((resolve) => {
        onUpdate = resolve;
      });
      const run = (await gateway.call("GET", `/api/v1/workflow-runs/${runId}`, options)).json<Json>();
      if (holds(run)) return run;
      await updated;
    }
  } finally {
    stop();
  }
}

export const runIs = (gateway: TestGateway, runId: string, state: string): Promise<Json> =>
  runUntil(gateway, runId, (run) => run.state === state);
