import { expect, test } from "vitest";
import { openWorkPacket } from "../../../src/engine/packets.ts";
import { jobDetail } from "../../../src/gateway/views/job-views.ts";
import type { JobProgress, Packet, PacketBody } from "../../../src/protocol/packet.ts";
import { PROGRESS, RESULT, SUBMIT } from "../../../src/protocol/subjects.ts";
import type { WorkItem } from "../../../src/worker/worker.ts";
import { Harness } from "../harness.ts";

const DETAILS = {
  adapterId: "gpt",
  env: { LOCALE: "de" },
  parentJobId: "p",
  workflowId: "wf",
  stepIndex: 3,
  memoryId: "repo:a/b",
  contextHints: { maxInputTokens: 9, allowRetrieval: true, tags: ["x"] },
  budget: { maxTotalTokens: 100, deadlineMs: 5_000 },
  compensation: { topic: "undo", env: { camelCase: "kept" } },
};

const packetOf = (body: PacketBody): Packet => ({ traceId: "", senderId: "client", createdAtMs: 1, body });

test("a request's optional fields reach the worker, and a result's optional fields reach the job", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const { bus } = engine.world;
  const received: PacketBody[] = [];
  await harness.run(bus.serve("job.t", ({ body }) => received.push(body)));
  const claims = { principalId: "bob", meta: { actorId: "ann", idempotencyKey: "once" } };
  const request = { kind: "job_request", jobId: "j", topic: "t", input: 1, ...claims, ...DETAILS } as const;
  await harness.run(bus.publish({ id: "m1", subject: SUBMIT, packet: packetOf(request) }));
  await harness.pass(100);
  expect(received).toMatchObject([{ jobId: "j", principalId: "bob", ...DETAILS }]);
  expect(openWorkPacket("c1", await harness.job("j"), "key").body).toMatchObject({ ...claims, ...DETAILS });
  const { createdMs, deadlineMs } = await harness.job("j");
  expect(deadlineMs - createdMs).toBe(5_000);
  const result = {
    kind: "job_result",
    jobId: "j",
    workerId: "w",
    status: "succeeded",
    executionMs: 12,
    errorCode: "none",
    errorCodeEnum: 1_234,
    artifactPtrs: ["s3://bucket/a"],
  } as const;
  await harness.run(bus.publish({ id: "m2", subject: RESULT, packet: packetOf(result) }));
  await harness.pass(100);
  expect(jobDetail(await found(harness), 1, null)).toMatchObject({
    state: "SUCCEEDED",
    actor_id: "ann",
    principal_id: "bob",
    idempotency_key: "once",
    adapter_id: "gpt",
    env: { LOCALE: "de" },
    parent_job_id: "p",
    workflow_id: "wf",
    step_index: 3,
    memory_id: "repo:a/b",
    context_hints: { max_input_tokens: 9, allow_retrieval: true, tags: ["x"] },
    budget: { max_total_tokens: 100, deadline_ms: 5_000 },
    compensation: { topic: "undo", env: { camelCase: "kept" } },
    execution_ms: 12,
    error_code: "none",
    error_code_enum: "1234",
    artifact_ptrs: ["s3://bucket/a"],
  });
});

test("the optional fields of a progress report are shown on the job, and later reports keep what they omit", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const { bus } = engine.world;
  await harness.run(bus.serve("job.t", () => undefined));
  await harness.admit(engine, { topic: "t", jobId: "j" });
  await harness.pass(100);
  const report = async (fields: Partial<JobProgress>) => {
    bus.broadcast(PROGRESS, packetOf({ kind: "job_progress", jobId: "j", ...fields }));
    await harness.pass(2_000);
    return jobDetail(await found(harness), 1, null).progress;
  };
  const internal = "redis://cordum:payload:default/job/j/0";
  const fields = { stepId: "s1", status: "running", resultPtr: "redis://res:j/part" } as const;
  const shown = { step_id: "s1", status: "RUNNING", result_ptr: "redis://res:j/part", artifact_ptrs: ["s3://b/a"] };
  expect(await report({ ...fields, artifactPtrs: ["s3://b/a", internal] })).toMatchObject(shown);
  expect(await report({ percent: 50 })).toMatchObject({ percent: 50, ...shown });
  const last = await report({ stepId: "x".repeat(5_000), message: "more" });
  expect(last).toMatchObject({ percent: 50, message: "more", step_id: "x".repeat(256) });
  expect(last).not.toHaveProperty("status");
});

test("a progress report about another attempt or from another worker is ignored", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const { bus } = engine.world;
  await harness.run(bus.serve("job.t", () => undefined));
  await harness.admit(engine, { topic: "t", jobId: "j" });
  await harness.pass(100);
  const { attempt } = await harness.job("j");
  const report = async (fields: Partial<JobProgress>, jobId = "j") => {
    bus.broadcast(PROGRESS, packetOf({ kind: "job_progress", jobId, ...fields }));
    await harness.pass(2_000);
    return (await harness.job("j")).progress?.percent;
  };
  expect(await report({ percent: 10, attempt })).toBe(10);
  expect(await report({ percent: 20, attempt: attempt + 1 })).toBe(10);
  expect(await report({ percent: 30, attempt: attempt - 1 })).toBe(10);
  expect(await report({ percent: 40 }, "unknown")).toBe(10);
  expect(await report({ percent: 50 })).toBe(50);
});

test("progress is written at most once a second, with the latest report", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const { bus } = engine.world;
  await harness.run(bus.serve("job.t", () => undefined));
  await harness.admit(engine, { topic: "t", jobId: "j" });
  await harness.pass(100);
  const seen = new Set<number | null | undefined>();
  for (let percent = 1; percent <= 30; percent++) {
    bus.broadcast(PROGRESS, packetOf({ kind: "job_progress", jobId: "j", percent }));
    await harness.pass(100);
    seen.add((await harness.job("j")).progress?.percent);
  }
  await harness.pass(1_100);
  expect((await harness.job("j")).progress?.percent).toBe(30);
  expect(seen.size).toBeGreaterThanOrEqual(3);
  expect(seen.size).toBeLessThanOrEqual(5);
});

test("a worker of the SDK gets the optional fields, and a job without any has none", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const seen: WorkItem["details"][] = [];
  await harness.worker("w", ["t"], async ({ details }) => {
    seen.push(details);
  });
  await harness.admit(engine, { topic: "t", jobId: "a", details: DETAILS });
  await harness.pass(1_000);
  await harness.admit(engine, { topic: "t", jobId: "b" });
  await harness.pass(1_000);
  expect(seen).toEqual([DETAILS, {}]);
  expect(await harness.job("b")).not.toHaveProperty("details");
});

const found = async (harness: Harness) => ({ id: "j", version: 1, value: await harness.job("j") });
