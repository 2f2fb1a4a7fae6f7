import { describe, expect, test } from "vitest";
import { DEAD_LETTERS, type DeadLetter } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { RETRY_STATES } from "../../../src/core/model/parked-message.ts";
import { permanent } from "../../../src/core/retry/intent.ts";
import { deliverTo } from "../../../src/engine/delivery/deliver-message.ts";
import { discardDeadLetter, redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { put } from "../../../src/ports/store.ts";
import { toBase64 } from "../../../src/protocol/base64.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";

const request = (id: string) => ({ org: "default", id, by: "alice" });
/** The dead letter of a result for an unknown job. */
const tenantlessRequest = (id: string) => ({ ...request(id), org: "*" });
const loadDeadLetter = (harness: Harness, id: string) => harness.sim.net.store.load(DEAD_LETTERS, id);

/** A worker whose jobs fail permanently until `isFixed` is set. */
async function startFailingWorker(harness: Harness) {
  const worker = { isFixed: false, calls: 0 };
  await harness.worker("w1", ["t"], async () => {
    worker.calls++;
    if (!worker.isFixed) throw permanent(new Error("broken"));
    return "done";
  });
  return worker;
}

describe("redriving the dead letter of a job", () => {
  test.each(["local", "remote"] as const)("L42: the same job continues, kernel %s", async (safety) => {
    const harness = new Harness();
    const { engine } = await harness.control("c1", safety);
    const worker = await startFailingWorker(harness);
    const id = idOf(await harness.admit(engine, { topic: "t", input: { a: 1 } }));
    await harness.pass(1_000);
    expect(await harness.job(id)).toMatchObject({ state: "FAILED", attempt: 1 });
    worker.isFixed = true;
    expect(await harness.run(redriveDeadLetter(engine, request(id)))).toMatchObject({ kind: "revived", jobId: id });
    expect(loadDeadLetter(harness, id)).toBeNull();
    await harness.pass(1_000);
    const job = await harness.job(id);
    expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 2, output: { value: "done" } });
    expect(job.history.map(({ event }) => event)).toEqual(["failed", "revived", "succeeded"]);
    expect(await auditLines(harness, engine, "dead_letter")).toEqual(["alice retried"]);
    expect(await harness.run(redriveDeadLetter(engine, request(id)))).toEqual({ kind: "not_found" });
  });

  test("a job that fails again has a dead letter again", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await startFailingWorker(harness);
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    for (let redrives = 1; redrives <= 3; redrives++) {
      await harness.pass(1_000);
      expect(loadDeadLetter(harness, id)?.value.source).toMatchObject({ jobId: id, attempt: redrives });
      expect(await harness.run(redriveDeadLetter(engine, request(id)))).toMatchObject({ kind: "revived" });
    }
  });

  test("concurrent redrives reopen the job once", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const worker = await startFailingWorker(harness);
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(1_000);
    worker.isFixed = true;
    const other = harness.engine("g1");
    const answers = await harness.run(
      Promise.all([redriveDeadLetter(engine, request(id)), redriveDeadLetter(other, request(id))]),
    );
    expect(answers.map(({ kind }) => kind).sort()).toEqual(["not_found", "revived"]);
    await harness.pass(5_000);
    expect(worker.calls).toBe(2);
  });

  test("is checked again: a job that the policy now denies is not run", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const worker = await startFailingWorker(harness);
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(1_000);
    const denied = { effect: "deny", ruleId: "d", reason: "not any more", snapshot: "s2" } as const;
    Object.assign(harness.kernel, { decide: () => denied });
    expect(await harness.run(redriveDeadLetter(engine, request(id)))).toEqual({
      kind: "revived",
      jobId: id,
      state: "DENIED",
    });
    await harness.pass(5_000);
    expect(worker.calls).toBe(1);
  });

  test("extends the retention of a large input; a missing input is reported", async () => {
    const harness = new Harness();
    const { job, retention } = harness.settings;
    Object.assign(harness.settings, {
      job: { ...job, deadlineMs: 100_000 },
      retention: { ...retention, jobsMs: 600_000 },
    });
    const { engine } = await harness.control("c1");
    const worker = await startFailingWorker(harness);
    const large = { text: "x".repeat(300_000) };
    const id = idOf(await harness.admit(engine, { topic: "t", input: large }));
    await harness.pass(550_000);
    worker.isFixed = true;
    await harness.run(redriveDeadLetter(engine, request(id)));
    await harness.pass(550_000); // Past the retention of the first execution.
    const { input, state } = await harness.job(id);
    expect(state).toBe("SUCCEEDED");
    expect(await harness.run(engine.world.blobs.get(input.kind === "pointer" ? input.ptr : ""))).not.toBeNull();

    worker.isFixed = false;
    const missing = idOf(await harness.admit(engine, { topic: "t", input: large }));
    await harness.pass(1_000);
    const kept = (await harness.job(missing)).input;
    await harness.run(engine.world.blobs.delete(kept.kind === "pointer" ? kept.ptr : ""));
    expect(await harness.run(redriveDeadLetter(engine, request(missing)))).toEqual({
      kind: "input_gone",
      jobId: missing,
    });
    expect(loadDeadLetter(harness, missing)).not.toBeNull();
  });

  test("reports a job that was removed after its retention", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await startFailingWorker(harness);
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(1_000);
    const found = harness.sim.net.store.load(JOBS, id);
    const change = { org: "default", atMs: 0, guards: [], sends: [], watch: [] };
    await harness.run(engine.world.store.commit({ ...change, puts: [put(JOBS, id, found, null)] }));
    expect(await harness.run(redriveDeadLetter(engine, request(id)))).toEqual({ kind: "job_gone", jobId: id });
  });
});

describe("the dead letter of a message", () => {
  const packet: Packet = {
    traceId: "t",
    senderId: "w",
    createdAtMs: 1,
    body: { kind: "job_result", jobId: "j1", status: "succeeded", workerId: "w", output: 7 },
  };

  test("is published again as a new message with a fresh retry budget", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    let tries = 0;
    const messageHandler = {
      name: "test",
      about: () => "job/j1",
      handle: async () => {
        tries++;
        throw new Error("not yet");
      },
    };
    const content = { kind: "packet", packet } as const;
    for (let attempt = 1; attempt <= 8; attempt++) {
      await harness.run(deliverTo(engine, messageHandler)({ id: "m1", subject: RESULT, attempt, content }));
    }
    expect(tries).toBe(8);
    const id = `${RESULT}/m1`;
    expect(loadDeadLetter(harness, id)?.value.reason).toBe("budget");
    const seen: Packet[] = [];
    await harness.run(
      engine.world.bus.consume(RESULT, "watch", async (delivery) => {
        if (delivery.content.kind === "packet") seen.push(delivery.content.packet);
        return { kind: "ack" };
      }),
    );
    expect(await harness.run(redriveDeadLetter(engine, tenantlessRequest(id)))).toMatchObject({
      kind: "sent_again",
      subject: RESULT,
    });
    await harness.pass(1_000);
    expect(seen).toEqual([packet]);
    expect(loadDeadLetter(harness, id)).toBeNull();
    expect(harness.sim.net.store.load(RETRY_STATES, "job/j1")).toBeNull();
  });

  test("an undecodable message cannot be redriven, only discarded", async () => {
    const harness = new Harness();
    const engine = harness.engine("c");
    const source = { kind: "message", subject: RESULT, messageId: "m", deliveries: 4 } as const;
    const deadLetter: DeadLetter = {
      id: "x",
      org: "default",
      createdMs: 1,
      dueMs: 1e15,
      reason: "undecodable",
      error: { name: "Undecodable", message: "not a packet" },
      source: { ...source, base64: toBase64(new Uint8Array([255, 0, 7])) },
      history: [],
    };
    const change = { org: "default", atMs: 0, guards: [], sends: [], watch: [] };
    await harness.run(engine.world.store.commit({ ...change, puts: [put(DEAD_LETTERS, "x", null, deadLetter)] }));
    expect(await harness.run(redriveDeadLetter(engine, request("x")))).toMatchObject({ kind: "unreadable" });
    expect(loadDeadLetter(harness, "x")).not.toBeNull();
    expect(await harness.run(discardDeadLetter(engine, { ...request("x"), org: "evil" }))).toEqual({
      kind: "not_found",
    });
    expect(await harness.run(discardDeadLetter(engine, request("x")))).toEqual({ kind: "dropped" });
    expect(loadDeadLetter(harness, "x")).toBeNull();
    expect(await auditLines(harness, engine, "dead_letter")).toEqual(["alice dropped"]);
  });
});
