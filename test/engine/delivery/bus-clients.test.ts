import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { put } from "../../../src/ports/store.ts";
import type { JobRequest, JobResult, Packet, PacketBody, SystemAlert } from "../../../src/protocol/packet.ts";
import { ALERT, CANCEL, DLQ, HANDSHAKE, HEARTBEAT, RESULT, SUBMIT } from "../../../src/protocol/subjects.ts";
import { Harness } from "../harness.ts";

const packetOf = (body: PacketBody, senderId = "client"): Packet => ({
  traceId: "trace",
  senderId,
  createdAtMs: 1,
  body,
});

async function setUp(settings: ConstructorParameters<typeof Harness>[0] = {}) {
  const harness = new Harness(settings);
  const { engine } = await harness.control("c1");
  const failures: JobResult[] = [];
  await harness.run(
    engine.world.bus.consume(DLQ, "watch", async ({ content }) => {
      if (content.kind === "packet" && content.packet.body.kind === "job_result") failures.push(content.packet.body);
      return { kind: "ack" };
    }),
  );
  const submit = async (request: Partial<JobRequest> & { jobId: string }) => {
    const packet = packetOf({ kind: "job_request", topic: "t", ...request });
    await harness.run(engine.world.bus.publish({ id: `m:${request.jobId}`, subject: SUBMIT, packet }));
    await harness.pass(1_000);
  };
  const cancel = async (jobId: string, requestedBy = "ann") => {
    engine.world.bus.broadcast(CANCEL, packetOf({ kind: "job_cancel", jobId, reason: "changed my mind", requestedBy }));
    await harness.pass(1_000);
  };
  return { harness, engine, failures, submit, cancel };
}

describe("a submission on the bus", () => {
  test("without a context pointer is admitted with an empty input", async () => {
    const { harness, submit } = await setUp();
    await submit({ jobId: "j" });
    expect(await harness.job("j")).toMatchObject({ input: { kind: "inline", value: null }, submittedBy: "bus:client" });
  });

  test("that the policy denies is reported as DENIED", async () => {
    const { harness, failures, submit } = await setUp();
    await submit({ jobId: "j", topic: "danger.x" });
    expect(await harness.job("j")).toMatchObject({ state: "DENIED" });
    expect(failures).toMatchObject([
      {
        jobId: "j",
        status: "denied",
        errorCode: "Denied",
        errorMessage: "deny by rule",
        errorCodeEnum: "denied",
      },
    ]);
  });

  test.each([
    ["for another tenant", { tenantId: "acme" }, "permission_denied", "`acme`"],
    ["that is invalid", { topic: "not a topic" }, "invalid_input", "`topic`"],
    ["with an invalid budget", { budget: { deadlineMs: -1 } }, "invalid_input", "`budget.deadlineMs`"],
  ] as const)("%s is reported as refused", async (_, request, errorCodeEnum, text) => {
    const { failures, submit } = await setUp();
    await submit({ jobId: "j", ...request });
    expect(failures).toMatchObject([
      { jobId: "j", status: "failed_fatal", errorCodeEnum, errorMessage: expect.stringContaining(text) },
    ]);
  });

  test("that is refused causes no report about a job that exists", async () => {
    const { harness, engine, failures, submit } = await setUp();
    await harness.admit(engine, { topic: "t", jobId: "j" });
    await submit({ jobId: "j", tenantId: "birch" });
    expect(failures).toEqual([]);
    expect(await harness.job("j")).toMatchObject({ org: "default", state: "SCHEDULED" });
  });

  test("with another protocol version is dead-lettered and reported", async () => {
    const { harness, engine, failures } = await setUp();
    const packet = { ...packetOf({ kind: "job_request", jobId: "j", topic: "t" }), otherVersion: 2 };
    const { deliverTo } = await import("../../../src/engine/delivery/deliver-message.ts");
    const { encodePacket } = await import("../../../src/protocol/codec.ts");
    const handler = deliverTo(engine, { name: "test", about: () => "", handle: async () => undefined });
    const content = { kind: "refused", bytes: encodePacket(packet), code: "VERSION_MISMATCH", error: "why" } as const;
    await harness.run(handler({ id: "m1", subject: SUBMIT, attempt: 1, content }));
    await harness.pass(1_000);
    expect(await harness.run(engine.world.store.load(DEAD_LETTERS, `${SUBMIT}/m1`))).toMatchObject({
      value: { reason: "permanent", error: { name: "VersionError", code: "VERSION_MISMATCH" } },
    });
    expect(failures).toMatchObject([{ jobId: "j", errorCodeEnum: "version_mismatch", errorMessage: "why" }]);
  });
});

describe("a cancel on the bus", () => {
  test("ends a job of a tenant that the client may act for", async () => {
    const { harness, submit, cancel } = await setUp();
    await submit({ jobId: "j" });
    await cancel("j");
    const job = await harness.job("j");
    expect(job).toMatchObject({ state: "CANCELLED", error: { message: "changed my mind" } });
    expect(job.history.at(-1)).toMatchObject({ event: "cancelled", who: "bus:client" });
  });

  test("does not end a job of another tenant", async () => {
    const { harness, engine, cancel } = await setUp();
    await harness.admit(engine, { topic: "t", jobId: "j", org: "acme" });
    for (const id of ["j", "acme~j"]) await cancel(id);
    expect(await harness.job("acme~j")).toMatchObject({ state: "SCHEDULED" });
  });

  test("does not end the compensation of a step", async () => {
    const { harness, engine, submit, cancel } = await setUp();
    await submit({ jobId: "j" });
    const found = await harness.run(engine.world.store.load(JOBS, "j"));
    const step = { runId: "r", stepId: "s", kind: "worker", isCompensation: true } as const;
    const puts = found === null ? [] : [put(JOBS, "j", found, { ...found.value, step })];
    await harness.run(engine.commit({ org: "default", puts }));
    await cancel("j");
    expect(await harness.job("j")).toMatchObject({ state: "SCHEDULED", step });
  });

  test("that is a notice of a control plane process ends no job", async () => {
    const { harness, submit, cancel } = await setUp();
    await submit({ jobId: "j" });
    await cancel("j", "cordum/ann");
    await cancel("j", "cordum");
    expect(await harness.job("j")).toMatchObject({ state: "SCHEDULED" });
  });

  test("of a job that does not exist or has ended changes nothing", async () => {
    const { harness, submit, cancel } = await setUp();
    await submit({ jobId: "j", topic: "danger.x" });
    const before = await harness.job("j");
    await cancel("j");
    await cancel("unknown");
    expect(await harness.job("j")).toEqual(before);
  });
});

describe("a worker that supports other protocol versions only", () => {
  async function handshake(harness: Harness, engine: Engine, supportedVersions: readonly number[]) {
    const capabilities = { direct: true };
    const body = { kind: "handshake", componentId: "old", role: "worker", readyTopics: ["t"] } as const;
    engine.world.bus.broadcast(HANDSHAKE, packetOf({ ...body, capabilities, supportedVersions }, "old"));
    await harness.pass(100);
  }

  test("gets no job, and an alert says why", async () => {
    const { harness, engine, submit } = await setUp();
    const alerts: SystemAlert[] = [];
    await harness.run(
      engine.world.bus.subscribe(ALERT, ({ body }) => {
        if (body.kind === "alert") alerts.push(body);
      }),
    );
    const received: string[] = [];
    for (const subject of ["job.t", "worker.old.jobs"]) {
      await harness.run(engine.world.bus.serve(subject, () => received.push(subject)));
    }
    await handshake(harness, engine, [2, 3]);
    await submit({ jobId: "a" });
    await harness.pass(10_000);
    expect(received).toEqual([]);
    expect(await harness.job("a")).toMatchObject({ state: "SCHEDULED" });
    expect(alerts).toMatchObject([
      {
        code: "VERSION_MISMATCH",
        errorCodeEnum: "version_mismatch",
        severity: "error",
        component: "old",
        message: expect.stringContaining("versions 2, 3"),
      },
    ]);
    // After an update it gets the job.
    await handshake(harness, engine, [1, 2]);
    await harness.pass(60_000);
    expect(received).toContain("worker.old.jobs");
    expect(alerts.length).toBe(1);
  });

  test.each([
    ["handshake", { kind: "handshake", componentId: "old", role: "worker", readyTopics: ["t"] }],
    ["heartbeat", { kind: "heartbeat", workerId: "old", topics: ["t"], maxParallelJobs: 1 }],
  ] as const)("is known by the version of its %s alone, and stays known while it sends heartbeats", async (_, body) => {
    const { harness, engine, submit } = await setUp();
    const alerts: SystemAlert[] = [];
    const received: string[] = [];
    await harness.run(
      engine.world.bus.subscribe(ALERT, ({ body: alert }) => {
        if (alert.kind === "alert") alerts.push(alert);
      }),
    );
    await harness.run(engine.world.bus.serve("job.t", () => received.push("job.t")));
    const beat = { kind: "heartbeat", workerId: "old" } as const;
    engine.world.bus.broadcast(HANDSHAKE, { ...packetOf(body, "old"), otherVersion: 2 });
    await harness.pass(100);
    await submit({ jobId: "a" });
    for (let at = 0; at < 8; at++) {
      engine.world.bus.broadcast(HEARTBEAT, { ...packetOf(beat, "old"), otherVersion: 2 });
      await harness.pass(10_000);
    }
    expect(received).toEqual([]);
    expect(alerts).toMatchObject([{ component: "old", message: expect.stringContaining("versions 2;") }]);
    // Updated: it sends packets of version 1.
    engine.world.bus.broadcast(HEARTBEAT, packetOf(beat, "old"));
    await harness.pass(60_000);
    expect(received).toContain("job.t");
  });

  test("gets jobs if its handshake declares this version beside the one it sends", async () => {
    const { harness, engine, submit } = await setUp();
    const received: string[] = [];
    await harness.run(engine.world.bus.serve("job.t", () => received.push("job.t")));
    const body = { kind: "handshake", componentId: "both", role: "worker", readyTopics: ["t"] } as const;
    const packet = packetOf({ ...body, supportedVersions: [1, 2] }, "both");
    engine.world.bus.broadcast(HANDSHAKE, { ...packet, otherVersion: 2 });
    await harness.pass(100);
    await submit({ jobId: "a" });
    expect(received).toEqual(["job.t"]);
  });

  test("sends a result that ends the job with the reason, and the work is not repeated", async () => {
    const { harness, engine, failures, submit } = await setUp();
    let executions = 0;
    await harness.run(engine.world.bus.serve("job.t", () => executions++));
    await submit({ jobId: "a" });
    const result = { kind: "job_result", jobId: "a", workerId: "old", status: "succeeded" } as const;
    const packet = { ...packetOf(result, "old"), otherVersion: 2 };
    await harness.run(engine.world.bus.publish({ id: "r", subject: RESULT, packet }));
    await harness.pass(60_000);
    const error = { name: "ResultRefused", message: expect.stringContaining("protocol version 2") };
    expect(await harness.job("a")).toMatchObject({ state: "FAILED", error });
    expect(executions).toBe(1);
    expect(failures).toMatchObject([{ jobId: "a", status: "failed" }]);
  });

  test("does not keep jobs from other workers with a subject of their own", async () => {
    const { harness, engine, submit } = await setUp();
    await harness.worker("new", ["t"], async () => "done");
    await handshake(harness, engine, [2]);
    await submit({ jobId: "a" });
    await harness.pass(1_000);
    expect(await harness.job("a")).toMatchObject({ state: "SUCCEEDED", workerId: "new" });
  });
});
