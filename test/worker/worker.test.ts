import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import { JOBS } from "../../src/core/model/job.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { Heartbeat, PacketBody } from "../../src/protocol/packet.ts";
import { CANCEL, HANDSHAKE, HEARTBEAT } from "../../src/protocol/subjects.ts";
import type { WorkItem } from "../../src/worker/item.ts";
import { Harness, idOf } from "../engine/harness.ts";

const HOUR_MS = 3_600_000;
const { deadlineMs } = defaultSettings().dispatch;

/** Completes after `ms`; rejects when its signal aborts. */
const lasting = (engine: Engine, ms: number) => (item: WorkItem) =>
  new Promise((resolve, reject) => {
    const cancel = engine.world.clock.after(ms, () => resolve("done"));
    item.signal.addEventListener("abort", () => {
      cancel();
      reject(item.signal.reason);
    });
  });

test("a job has the topic as submitted, also from a process that has seen no heartbeat of the worker", async () => {
  const harness = new Harness();
  const topics: string[] = [];
  await harness.worker("w", ["t"], async ({ topic }) => topics.push(topic));
  const { engine } = await harness.control("c1");
  Object.defineProperty(engine.world.bus, "hasThirdPartyWorkers", { value: true });
  await harness.admit(engine, { topic: "t" });
  await harness.pass(100);
  expect(topics).toEqual(["t"]);
});

describe("a long-running attempt", () => {
  test("extends its deadline automatically", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.worker("w", ["t"], lasting(engine, deadlineMs * 5), 10, { extendsForMs: HOUR_MS });
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(deadlineMs * 4);
    expect(await harness.job(id)).toMatchObject({ state: "RUNNING", attempt: 1, workerId: "w" });
    await harness.pass(deadlineMs * 1.1);
    expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED", attempt: 1, output: { value: "done" } });
  });

  test("that hangs times out after `extendsForMs`", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    let aborted = 0;
    await harness.worker(
      "w",
      ["t"],
      (item) => {
        item.signal.addEventListener("abort", () => aborted++);
        return item.attempt === 1 ? new Promise(() => {}) : Promise.resolve("done");
      },
      10,
      { extendsForMs: deadlineMs * 3 },
    );
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(deadlineMs * 2.5);
    expect(await harness.job(id)).toMatchObject({ state: "RUNNING", attempt: 1 });
    await harness.pass(deadlineMs * 2);
    expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED", attempt: 2 });
    expect(aborted).toBe(1);
  });

  test("ends at the runtime limit of its constraints", async () => {
    const harness = new Harness();
    const budgets = { maxRuntimeMs: deadlineMs * 2 };
    const decide = () =>
      ({ effect: "allow_with_constraints", ruleId: "r", reason: "", snapshot: "s", constraints: { budgets } }) as const;
    Object.assign(harness.kernel, { decide });
    const { engine } = await harness.control("c1");
    const seen: unknown[] = [];
    await harness.worker(
      "w",
      ["t"],
      (item) => {
        seen.push(item.constraints);
        return item.attempt === 1 ? new Promise(() => {}) : Promise.resolve("done");
      },
      10,
      { extendsForMs: HOUR_MS },
    );
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(deadlineMs * 1.9);
    expect(await harness.job(id)).toMatchObject({ state: "RUNNING", attempt: 1 });
    await harness.pass(deadlineMs);
    expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED", attempt: 2 });
    expect(seen[0]).toEqual({ budgets: { max_runtime_ms: deadlineMs * 2 } });
  });
});

describe("progress", () => {
  test("is stored on the job, at most once a second, by one process", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.control("c2");
    await harness.worker("w", ["t"], async (item) => {
      for (let percent = 0; percent < 100; percent++) {
        item.progress(percent, `step ${percent}`);
        await new Promise<void>((resolve) => engine.world.clock.after(50, resolve));
      }
      return "done";
    });
    let writes = 0;
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    harness.sim.net.onCommit = (_, change) => {
      if (change.puts.some(({ table }) => table === JOBS.name)) writes++;
    };
    await harness.pass(3_000);
    const { progress, state } = await harness.job(id);
    expect(state).toBe("RUNNING");
    expect(progress?.percent).toBeGreaterThan(30);
    expect(progress?.message).toBe(`step ${progress?.percent}`);
    expect(writes).toBeLessThanOrEqual(7);
    await harness.pass(4_000);
    expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });
});

describe("a cancelled job", () => {
  test("aborts its signal, and no result is published", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const reasons: unknown[] = [];
    await harness.worker("w", ["t"], async (item) => {
      await lasting(engine, deadlineMs)(item).catch((reason) => reasons.push(reason.message));
      throw new Error("it was cut off");
    });
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100);
    const body: PacketBody = { kind: "job_cancel", jobId: id, reason: "changed my mind", requestedBy: "cordum" };
    engine.world.bus.broadcast(CANCEL, { traceId: "", senderId: "test", createdAtMs: 0, body });
    await harness.pass(100);
    expect(reasons).toEqual(["the job was cancelled: changed my mind"]);
    expect(await harness.job(id)).toMatchObject({ state: "DISPATCHED", attempt: 1, history: [] });
  });
});

describe("presence", () => {
  test("sends a handshake, then complete heartbeats, and a final heartbeat when it stops", async () => {
    const harness = new Harness();
    const { world } = harness.sim.enter("observer");
    const packets: PacketBody[] = [];
    for (const subject of [HANDSHAKE, HEARTBEAT])
      await harness.run(world.bus.subscribe(subject, ({ body }) => packets.push(body)));
    const options = { pool: "p", capabilities: ["gpu"] };
    const stop = await harness.worker("w", ["t"], async () => "done", 7, options);
    await harness.pass(40_000);
    await harness.run(stop());
    await harness.pass(20_000);
    const beats = packets.filter(({ kind }) => kind === "heartbeat");
    expect(packets.filter(({ kind }) => kind === "handshake")).toMatchObject([
      {
        kind: "handshake",
        readyTopics: ["t"],
        capabilities: { direct: true, inline: true, gpu: true },
      },
    ]);
    expect(beats.length).toBeGreaterThanOrEqual(4);
    expect(beats.length).toBeLessThanOrEqual(8);
    expect(beats[0]).toMatchObject({
      kind: "heartbeat",
      workerId: "w",
      pool: "p",
      topics: ["t"],
      maxParallelJobs: 7,
      capabilities: ["direct", "inline", "gpu"],
    });
    expect(beats.map((beat) => (beat as Heartbeat).isLeaving ?? false)).toEqual(
      beats.map((_, at) => at === beats.length - 1),
    );
  });
});
