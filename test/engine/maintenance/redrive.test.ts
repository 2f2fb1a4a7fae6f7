import { describe, expect, test } from "vitest";
import { DEAD_LETTERS, type DeadLetter } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { SPENDINGS } from "../../../src/core/model/parked-message.ts";
import { permanent } from "../../../src/core/retry/intent.ts";
import { deliver } from "../../../src/engine/delivery/deliver-message.ts";
import { dropLetter, retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { put } from "../../../src/ports/store.ts";
import { toBase64 } from "../../../src/protocol/base64.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { idOf, Plant } from "../harness.ts";

const wish = (id: string) => ({ org: "default", id, by: "alice" });
/** A result for a job that nobody knows. */
const ofNobody = (id: string) => ({ ...wish(id), org: "*" });
const letterOf = (plant: Plant, id: string) => plant.bench.net.store.load(DEAD_LETTERS, id);

/** A worker that fails for good until it is mended. */
async function broken(plant: Plant) {
  const bench = { isMended: false, worked: 0 };
  await plant.worker("w1", ["t"], async () => {
    bench.worked++;
    if (!bench.isMended) throw permanent(new Error("broken"));
    return "done";
  });
  return bench;
}

describe("retrying the dead letter of a job", () => {
  test.each(["local", "remote"] as const)("L42: the same job lives on, kernel %s", async (safety) => {
    const plant = new Plant();
    const { flow } = await plant.control("c1", safety);
    const bench = await broken(plant);
    const id = idOf(await plant.admit(flow, { topic: "t", input: { a: 1 } }));
    await plant.pass(1_000);
    expect(await plant.job(id)).toMatchObject({ state: "FAILED", attempt: 1 });
    bench.isMended = true;
    expect(await plant.run(retryLetter(flow, wish(id)))).toMatchObject({ kind: "revived", jobId: id });
    expect(letterOf(plant, id)).toBeNull();
    await plant.pass(1_000);
    const job = await plant.job(id);
    expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 2, output: { value: "done" } });
    expect(job.history.map(({ event }) => event)).toEqual(["failed", "revived", "succeeded"]);
    expect(await auditLines(plant, flow, "dead_letter")).toEqual(["alice retried"]);
    expect(await plant.run(retryLetter(flow, wish(id)))).toEqual({ kind: "not_found" });
  });

  test("a job that fails again has a letter again", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    await broken(plant);
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    for (let lives = 1; lives <= 3; lives++) {
      await plant.pass(1_000);
      expect(letterOf(plant, id)?.value.source).toMatchObject({ jobId: id, attempt: lives });
      expect(await plant.run(retryLetter(flow, wish(id)))).toMatchObject({ kind: "revived" });
    }
  });

  test("by two at once: it gets one more life", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const bench = await broken(plant);
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(1_000);
    bench.isMended = true;
    const other = plant.flow("g1");
    const answers = await plant.run(Promise.all([retryLetter(flow, wish(id)), retryLetter(other, wish(id))]));
    expect(answers.map(({ kind }) => kind).sort()).toEqual(["not_found", "revived"]);
    await plant.pass(5_000);
    expect(bench.worked).toBe(2);
  });

  test("it is checked again: what the policy denies by now stays undone", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const bench = await broken(plant);
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(1_000);
    const denied = { effect: "deny", ruleId: "d", reason: "not any more", snapshot: "s2" } as const;
    Object.assign(plant.kernel, { decide: () => denied });
    expect(await plant.run(retryLetter(flow, wish(id)))).toEqual({ kind: "revived", jobId: id, state: "DENIED" });
    await plant.pass(5_000);
    expect(bench.worked).toBe(1);
  });

  test("a large input is kept for the second life too; one that is gone is said to be gone", async () => {
    const plant = new Plant();
    const { job, retention } = plant.settings;
    Object.assign(plant.settings, {
      job: { ...job, deadlineMs: 100_000 },
      retention: { ...retention, jobsMs: 600_000 },
    });
    const { flow } = await plant.control("c1");
    const bench = await broken(plant);
    const large = { text: "x".repeat(300_000) };
    const id = idOf(await plant.admit(flow, { topic: "t", input: large }));
    await plant.pass(550_000);
    bench.isMended = true;
    await plant.run(retryLetter(flow, wish(id)));
    await plant.pass(550_000); // The first life would have been over by now, with all that was kept for it.
    const { input, state } = await plant.job(id);
    expect(state).toBe("SUCCEEDED");
    expect(await plant.run(flow.world.blobs.get(input.kind === "pointer" ? input.ptr : ""))).not.toBeNull();

    bench.isMended = false;
    const lost = idOf(await plant.admit(flow, { topic: "t", input: large }));
    await plant.pass(1_000);
    const kept = (await plant.job(lost)).input;
    await plant.run(flow.world.blobs.delete(kept.kind === "pointer" ? kept.ptr : ""));
    expect(await plant.run(retryLetter(flow, wish(lost)))).toEqual({ kind: "input_gone", jobId: lost });
    expect(letterOf(plant, lost)).not.toBeNull();
  });

  test("a job that was removed after its retention is said to be gone", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    await broken(plant);
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(1_000);
    const found = plant.bench.net.store.load(JOBS, id);
    const change = { org: "default", atMs: 0, guards: [], sends: [], watch: [] };
    await plant.run(flow.world.store.commit({ ...change, puts: [put(JOBS, id, found, null)] }));
    expect(await plant.run(retryLetter(flow, wish(id)))).toEqual({ kind: "job_gone", jobId: id });
  });
});

describe("the dead letter of a message", () => {
  const packet: Packet = {
    traceId: "t",
    senderId: "w",
    createdAtMs: 1,
    body: { kind: "job_result", jobId: "j1", status: "succeeded", workerId: "w", output: 7 },
  };

  test("goes back onto the bus as a message of its own, with its budget whole again", async () => {
    const plant = new Plant();
    const flow = plant.flow("c");
    let tries = 0;
    const station = {
      name: "test",
      about: () => "job/j1",
      handle: async () => {
        tries++;
        throw new Error("not yet");
      },
    };
    const content = { kind: "packet", packet } as const;
    for (let attempt = 1; attempt <= 8; attempt++) {
      await plant.run(deliver(flow, station)({ id: "m1", subject: RESULT, attempt, content }));
    }
    expect(tries).toBe(8);
    const id = `${RESULT}/m1`;
    expect(letterOf(plant, id)?.value.reason).toBe("budget");
    const seen: Packet[] = [];
    await plant.run(
      flow.world.bus.consume(RESULT, "watch", async (delivery) => {
        if (delivery.content.kind === "packet") seen.push(delivery.content.packet);
        return { kind: "ack" };
      }),
    );
    expect(await plant.run(retryLetter(flow, ofNobody(id)))).toMatchObject({ kind: "sent_again", subject: RESULT });
    await plant.pass(1_000);
    expect(seen).toEqual([packet]);
    expect(letterOf(plant, id)).toBeNull();
    expect(plant.bench.net.store.load(SPENDINGS, "job/j1")).toBeNull();
  });

  test("that is no packet stays where it is, and says why; it can be dropped", async () => {
    const plant = new Plant();
    const flow = plant.flow("c");
    const source = { kind: "message", subject: RESULT, messageId: "m", deliveries: 4 } as const;
    const letter: DeadLetter = {
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
    await plant.run(flow.world.store.commit({ ...change, puts: [put(DEAD_LETTERS, "x", null, letter)] }));
    expect(await plant.run(retryLetter(flow, wish("x")))).toMatchObject({ kind: "unreadable" });
    expect(letterOf(plant, "x")).not.toBeNull();
    expect(await plant.run(dropLetter(flow, { ...wish("x"), org: "evil" }))).toEqual({ kind: "not_found" });
    expect(await plant.run(dropLetter(flow, wish("x")))).toEqual({ kind: "dropped" });
    expect(letterOf(plant, "x")).toBeNull();
    expect(await auditLines(plant, flow, "dead_letter")).toEqual(["alice dropped"]);
  });
});
