import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../src/core/model/dead-letter.ts";
import { deliverTo } from "../../src/engine/delivery/deliver-message.ts";
import { handleResult } from "../../src/engine/delivery/handle-result.ts";
import { leaseJobs } from "../../src/engine/dispatch/lease-jobs.ts";
import { encodePacket } from "../../src/protocol/codec.ts";
import type { Packet, ResultStatus } from "../../src/protocol/packet.ts";
import { PROGRESS, RESULT } from "../../src/protocol/subjects.ts";
import { Harness, idOf } from "../engine/harness.ts";

const SENDERS = {
  acme: { keyFile: "", tenants: ["acme"] },
  birch: { keyFile: "", tenants: ["birch"] },
  both: { keyFile: "", tenants: ["acme", "birch"] },
  worker: { keyFile: "", tenants: [] },
};

const STATUSES: readonly ResultStatus[] = ["succeeded", "failed", "failed_retryable", "failed_fatal", "cancelled"];

/** A packet as a bus that enforces signatures delivers it. */
function signed(signedBy: string | null, body: Packet["body"]): Packet {
  const packet = { traceId: "", senderId: signedBy ?? "control", createdAtMs: 1, body };
  return { ...packet, origin: { kind: "arrived", bytes: encodePacket(packet), signedBy } };
}

async function setUp() {
  const harness = new Harness({ senders: SENDERS });
  const { engine } = await harness.control("c1");
  const handler = deliverTo(engine, {
    name: "result",
    about: () => "",
    handle: (packet) => handleResult(engine, packet),
  });
  let count = 0;
  const report = async (signedBy: string | null, jobId: string, status: ResultStatus = "succeeded") => {
    const body = { kind: "job_result", jobId, status, workerId: "claimed" } as const;
    const content = { kind: "packet", packet: signed(signedBy, body) } as const;
    const id = `r${count++}`;
    const settled = await harness.run(handler({ id, subject: RESULT, attempt: 1, content }));
    return { settled, deadLetter: await harness.run(engine.world.store.load(DEAD_LETTERS, `${RESULT}/${id}`)) };
  };
  const admit = async (jobId: string, org: string, topic = "t") => {
    const admitted = await harness.admit(engine, { topic, jobId, org });
    await harness.pass(100);
    return idOf(admitted);
  };
  return { harness, engine, report, admit };
}

describe("with signatures enforced, a result", () => {
  test.each(Object.keys(SENDERS).flatMap((sender) => ["acme", "birch"].map((org) => [sender, org] as const)))(
    "of sender %s for a job of %s counts only if the sender may act for the tenant",
    async (sender, org) => {
      const { harness, engine, report, admit } = await setUp();
      await harness.run(engine.world.bus.serve("job.t", () => undefined));
      const tenants: readonly string[] = SENDERS[sender as keyof typeof SENDERS].tenants;
      const isAllowed = tenants.length === 0 || tenants.includes(org);
      for (const status of STATUSES) {
        const jobId = await admit(status, org);
        const before = await harness.job(jobId);
        const { settled, deadLetter } = await report(sender, jobId, status);
        if (isAllowed) {
          expect(settled).toEqual({ kind: "ack" });
          expect(await harness.job(jobId)).not.toEqual(before);
          continue;
        }
        expect(settled).toEqual({ kind: "term" });
        expect(await harness.job(jobId)).toEqual(before);
        expect(deadLetter?.value.error).toMatchObject({
          code: "PERMISSION_DENIED",
          message: expect.stringContaining(`cap.senders.${sender}.tenants`),
        });
      }
    },
  );

  test.each(Object.keys(SENDERS))("of %s does not end a job that an HTTP worker leased", async (sender) => {
    const { harness, engine, report, admit } = await setUp();
    const id = await admit("j", "acme");
    const request = {
      org: "acme",
      workerId: "h",
      topics: ["t"],
      max: 1,
      waitMs: 0,
      signal: new AbortController().signal,
    };
    const [leased] = await harness.run(leaseJobs(engine, request));
    expect(leased?.id).toBe(id);
    for (const status of STATUSES) await report(sender, id, status);
    expect(await harness.job(id)).toEqual(leased);
  });

  test("of another worker does not end a job that was sent to one worker", async () => {
    const { harness, report, admit } = await setUp();
    await harness.worker("worker", ["t"], () => new Promise(() => undefined));
    await harness.pass(1_000);
    const id = await admit("j", "acme");
    expect(await harness.job(id)).toMatchObject({ state: "DISPATCHED", sentTo: "worker" });
    for (const status of STATUSES) await report("both", id, status);
    expect(await harness.job(id)).toMatchObject({ state: "DISPATCHED", attempt: 1 });
    await report("worker", id);
    expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("a job goes to another worker if the recorded one is gone", async () => {
    const { harness, admit } = await setUp();
    await harness.worker("worker", ["t"], async () => "first");
    await harness.pass(1_000);
    harness.crash("worker");
    await harness.worker("both", ["t"], async () => "second");
    const id = await admit("j", "acme");
    await harness.pass(60_000);
    expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED", output: { value: "second" } });
  });
});

test("progress of a sender of another tenant is ignored", async () => {
  const { harness, engine, admit } = await setUp();
  await harness.run(engine.world.bus.serve("job.t", () => undefined));
  const id = await admit("j", "acme");
  const body = { kind: "job_progress", jobId: id, percent: 50, message: "mine" } as const;
  engine.world.bus.broadcast(PROGRESS, signed("birch", body));
  await harness.pass(2_000);
  expect(await harness.job(id)).toMatchObject({ state: "DISPATCHED" });
  engine.world.bus.broadcast(PROGRESS, signed("acme", body));
  await harness.pass(2_000);
  expect(await harness.job(id)).toMatchObject({ state: "RUNNING", progress: { percent: 50 } });
});
