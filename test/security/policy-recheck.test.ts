/** A stricter policy reaches queued and retried work: a job is dispatched only by the policy in force. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { JOBS, type Job } from "../../src/core/model/job.ts";
import { startWorker } from "../../src/worker/worker.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await openTestGateway();
  await publish("allow");
});
afterEach(() => gateway.close());

const TOPIC = "demo.later";

async function publish(decision: string, reason = decision): Promise<void> {
  const rule = { id: "later", match: { topics: [TOPIC] }, decision, reason };
  const body = { policy: JSON.stringify({ default_decision: "allow", rules: [rule] }) };
  expect((await gateway.call("POST", "/api/v1/policy/publish", { body })).statusCode).toBe(200);
}

async function submit(): Promise<string> {
  return (await gateway.call("POST", "/api/v1/jobs", { body: { topic: TOPIC } })).json<{ job_id: string }>().job_id;
}

async function jobUntil(jobId: string, holds: (job: Job) => boolean): Promise<Job> {
  let onUpdate = () => {};
  const stop = gateway.engine.events.subscribe(() => onUpdate());
  try {
    for (;;) {
      const updated = new Promise<void>((resolve) => {
        onUpdate = resolve;
      });
      const job = (await gateway.world.store.load(JOBS, jobId))?.value;
      if (job && holds(job)) return job;
      await updated;
    }
  } finally {
    stop();
  }
}

/** A worker that records what it executes. */
async function work(handle: () => unknown = () => ({})): Promise<{ readonly executed: string[] }> {
  const executed: string[] = [];
  await startWorker(gateway.world, {
    id: "late",
    topics: [TOPIC],
    concurrency: 1,
    handle: async ({ jobId }) => {
      executed.push(jobId);
      return handle();
    },
  });
  return { executed };
}

test.each([
  ["deny", "DENIED", 0],
  ["require_approval", "APPROVAL_REQUIRED", 0],
  ["allow", "SUCCEEDED", 1],
] as const)("a queued job meets a policy that says %s: %s", async (decision, state, executions) => {
  const jobId = await submit();
  await publish(decision, "another policy");
  const { executed } = await work();
  const job = await jobUntil(jobId, (one) => one.state === state);
  expect(job.safety).toMatchObject({ effect: decision, snapshot: gateway.engine.kernel.inForce.snapshot.hash });
  expect(executed).toHaveLength(executions);
});

test("a polling worker gets no job that the new policy denies", async () => {
  const jobId = await submit();
  await publish("deny");
  const body = { worker_id: "http", topics: [TOPIC], max: 1, wait_ms: 0 };
  expect((await gateway.call("POST", "/api/v1/worker/lease", { body })).statusCode).toBe(204);
  await jobUntil(jobId, ({ state }) => state === "DENIED");
});

test("a retried job meets the new policy", async () => {
  let attempts = 0;
  const { executed } = await work(async () => {
    attempts += 1;
    await publish("deny");
    throw new Error("try again");
  });
  const jobId = await submit();
  await jobUntil(jobId, ({ state }) => state === "DENIED");
  expect([attempts, executed]).toEqual([1, [jobId]]);
});

test("an approval given under the old policy is void", async () => {
  await publish("require_approval");
  const { key: root } = await gateway.keyOf("*", "admin");
  const { key } = await gateway.keyOf("default", "submitter");
  const { job_id: jobId } = (await gateway.call("POST", "/api/v1/jobs", { key, body: { topic: TOPIC } })).json<{
    job_id: string;
  }>();
  const approved = await gateway.call("POST", `/api/v1/approvals/${jobId}/approve`, { key: root, tenant: "default" });
  expect(approved.statusCode).toBe(200);
  const stricter = { id: "later", match: { topics: [TOPIC] }, decision: "require_approval", reason: "stricter" };
  const policy = JSON.stringify({ rules: [stricter] });
  await gateway.call("POST", "/api/v1/policy/publish", { key: root, body: { policy } });
  const { executed } = await work();
  const job = await jobUntil(jobId, ({ state }) => state === "APPROVAL_REQUIRED");
  expect(job.approval?.decidedBy).toBeUndefined();
  expect(executed).toEqual([]);
});
