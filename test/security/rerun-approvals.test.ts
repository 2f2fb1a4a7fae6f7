/** An approval of a workflow is valid for the run it was given in. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";
import { applied, type Json, runUntil, started } from "../gateway/workflow-fixtures.ts";

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await openTestGateway();
});
afterEach(() => gateway.close());

const SIGN = { type: "approval", reason: "pay?" } as const;
const done = (after: string) => ({ type: "transform", depends_on: [after], input: { paid: true } }) as const;

/** Ways to put an approval before the step `pay`; `ask` is the step that asks again. */
const SHAPES: readonly (readonly [string, string, readonly object[]])[] = [
  ["directly before", "sign", [{ id: "w", steps: { sign: SIGN, pay: done("sign") } }]],
  [
    "before a kept step",
    "sign",
    [{ id: "w", steps: { sign: SIGN, price: done("sign"), tax: done("price"), pay: done("tax") } }],
  ],
  [
    "in a sub-workflow",
    "sub",
    [
      { id: "inner", steps: { sign: SIGN } },
      { id: "w", steps: { sub: { type: "subworkflow", workflow: "inner" }, pay: done("sub") } },
    ],
  ],
  [
    "in a branch",
    "both",
    [{ id: "w", steps: { both: { type: "parallel", branches: ["sign"] }, sign: SIGN, pay: done("both") } }],
  ],
  ["in a list", "sign", [{ id: "w", steps: { sign: { ...SIGN, for_each: "[1]" }, pay: done("sign") } }]],
];

const post = async (path: string, body: object, key?: string) => {
  const answer = await gateway.call("POST", `/api/v1/${path}`, { body, key });
  return { status: answer.statusCode, body: answer.json() as Record<string, unknown> };
};

async function approvals(): Promise<readonly string[]> {
  const answer = await gateway.call("GET", "/api/v1/approvals", { key: operator });
  return answer.json<{ items: { job_id: string }[] }>().items.map(({ job_id }) => job_id);
}

/** The first job that awaits approval. A sub-run asks after its parent has started. */
async function asked(): Promise<string> {
  let onUpdate = () => {};
  const stop = gateway.engine.events.subscribe(() => onUpdate());
  try {
    for (;;) {
      const updated = new Promise<void>((resolve) => {
        onUpdate = resolve;
      });
      const [jobId] = await approvals();
      if (jobId !== undefined) return jobId;
      await updated;
    }
  } finally {
    stop();
  }
}

/** Approves the job that waits, and resolves to the run after its end. */
async function approve(runId: string): Promise<Json> {
  const jobId = await asked();
  expect(await post(`approvals/${encodeURIComponent(jobId)}/approve`, {}, operator)).toMatchObject({ status: 200 });
  return runUntil(gateway, runId, ({ state }) => state === "SUCCEEDED", { key: operator });
}

let submitter: string;
let operator: string;

async function approvedRun(documents: readonly object[]): Promise<string> {
  const { key } = await gateway.keyOf("*", "admin");
  for (const document of documents) await applied(gateway, document, { key });
  submitter = (await gateway.keyOf("default", "submitter")).key;
  operator = (await gateway.keyOf("default", "operator")).key;
  const runId = await started(gateway, "w", {}, { key: submitter });
  await approve(runId);
  return runId;
}

const rerun = (runId: string, fields: object, key: string) =>
  post(`workflow-runs/${runId}/rerun`, { from_step: "pay", ...fields }, key);

test.each(SHAPES)("L62: an approval %s is asked for again by a rerun", async (_, ask, documents) => {
  const runId = await approvedRun(documents);
  const dry = await rerun(runId, { dry_run: true }, submitter);
  expect((dry.body.steps as readonly { step_id: string }[]).map(({ step_id }) => step_id)).toContain(ask);
  const { status, body } = await rerun(runId, {}, submitter);
  expect(status).toBe(200);
  const again = String(body.run_id);
  const isAsking = ({ steps }: Json) => stateOf(steps, ask) === "RUNNING";
  const waiting = await runUntil(gateway, again, isAsking, { key: submitter });
  expect(stateOf(waiting.steps, "pay")).not.toBe("SUCCEEDED");
  await asked();
  expect(stateOf((await approve(again)).steps, "pay")).toBe("SUCCEEDED");
});

test("L62: results between the approval and the step are kept; a rejection ends the rerun", async () => {
  const runId = await approvedRun(SHAPES[1]?.[2] ?? []);
  const again = String((await rerun(runId, {}, submitter)).body.run_id);
  const run = await runUntil(gateway, again, ({ steps }) => stateOf(steps, "sign") === "RUNNING", { key: submitter });
  expect(run.rerun_of).toEqual({ run_id: runId, from_step: "pay", asks: ["sign"] });
  expect([stateOf(run.steps, "price"), stateOf(run.steps, "tax")]).toEqual(["SUCCEEDED", "SUCCEEDED"]);
  const jobId = await asked();
  await post(`approvals/${encodeURIComponent(jobId)}/reject`, { reason: "no" }, operator);
  const ended = await runUntil(gateway, again, ({ state }) => state === "FAILED", { key: submitter });
  expect(stateOf(ended.steps, "pay")).not.toBe("SUCCEEDED");
});

test("L62: only an operator keeps the approvals, with an audit entry", async () => {
  const runId = await approvedRun(SHAPES[1]?.[2] ?? []);
  expect(await rerun(runId, { keep_approvals: true }, submitter)).toMatchObject({
    status: 403,
    body: { code: "forbidden", detail: expect.stringContaining("`operate` access") },
  });
  const dry = await rerun(runId, { keep_approvals: true, dry_run: true }, operator);
  expect(dry.body.steps).toMatchObject([{ step_id: "pay" }]);
  const kept = await rerun(runId, { keep_approvals: true }, operator);
  await runUntil(gateway, String(kept.body.run_id), ({ state }) => state === "SUCCEEDED", { key: operator });
  expect(await approvals()).toEqual([]);
  const { key } = await gateway.keyOf("default", "admin");
  const audit = (await gateway.call("GET", "/api/v1/audit?limit=100", { key })).json<{
    items: { what: string; facts: object }[];
  }>();
  expect(audit.items.filter(({ what }) => what === "approvals kept")).toMatchObject([
    { facts: { run: runId, from_step: "pay", steps: "sign" } },
  ]);
});

const stateOf = (steps: unknown, id: string): unknown => (steps as Record<string, { state: string }>)[id]?.state;
