import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import type { Decision } from "../../../src/core/policy/decision.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { idOf, Plant } from "../harness.ts";

const never = () => new Promise<never>(() => {});

async function why(plant: Plant, flow: Flow, jobId: string) {
  const explained = await plant.run(explain(flow, { org: "default", jobId, isForAll: true }));
  if (explained.kind !== "explained") throw new Error("not found");
  return explained;
}

describe("why a job waits", () => {
  test("no worker, then its turn behind a full window, then none", async () => {
    const plant = new Plant();
    Object.assign(plant.settings, { dispatch: { ...plant.settings.dispatch, windowMax: 1 } });
    const { flow } = await plant.control("c1");
    const first = idOf(await plant.admit(flow, { topic: "t" }));
    const second = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(5_000);
    expect((await why(plant, flow, second)).explanation.wait?.reason).toBe("no_worker");
    await plant.worker("w1", ["t"], never);
    await plant.pass(2_000);
    const { explanation, around } = await why(plant, flow, second);
    expect(explanation.wait?.reason).toBe("window_full");
    expect(around).toMatchObject({ window: { use: { used: 1, max: 1 } }, backlog: { topic: 1, tenant: 1 } });
    expect(around.workers.serving).toBe(1);
    expect((await why(plant, flow, first)).explanation.wait?.reason).toMatch(/^(dispatched|running)$/);
  });

  test("an outage of the kernel, with the time of the next try", async () => {
    const plant = new Plant();
    plant.kernel.health = "refuses";
    const { flow } = await plant.control("c1", "remote");
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(60_000);
    const { explanation } = await why(plant, flow, id);
    expect(explanation.wait).toMatchObject({ reason: "safety_unavailable", setBy: "full:1s:30s" });
    expect(explanation.wait?.untilMs).toBeGreaterThanOrEqual(flow.world.clock.now());
    expect(explanation.sentence).toContain("connection refused");
  });

  test("another tenant's job is not there", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const jobId = idOf(await plant.admit(flow, { topic: "t" }));
    expect(await plant.run(explain(flow, { org: "evil", jobId, isForAll: false }))).toEqual({ kind: "not_found" });
  });
});

describe("after its retention", () => {
  function short(): Plant {
    const plant = new Plant();
    const { job, retention } = plant.settings;
    Object.assign(plant.settings, {
      job: { ...job, deadlineMs: 60_000 },
      retention: { ...retention, jobsMs: 60_000, idempotencyMs: 60_000 },
    });
    return plant;
  }
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

  test("a job leaves with everything that was kept for it: both inputs, every result, its approval, its letter", async () => {
    const plant = short();
    const { flow } = await plant.control("c1");
    const ask: Decision = { effect: "require_approval", ruleId: "r", reason: "look", snapshot: "s" };
    Object.assign(plant.kernel, { decide: () => ask });
    const { blobs } = flow.world;
    const farMs = flow.world.clock.now() + 1e12; // Clients and workers of others need not set an end.
    await plant.run(blobs.put("ctx:j1", bytes({ usd: 1 }), farMs));
    await plant.admit(flow, { topic: "t", jobId: "j1", inputPtr: "ctx:j1" });
    const { input } = await plant.job("j1");
    await plant.pass(61_000);
    expect(await plant.job("j1")).toMatchObject({ state: "TIMEOUT" });
    await plant.pass(70_000);
    expect(plant.bench.net.store.load(JOBS, "j1")).toBeNull();
    expect(plant.bench.net.store.load(DEAD_LETTERS, "j1")).toBeNull();
    for (const key of ["ctx:j1", input.kind === "pointer" ? input.ptr : ""]) {
      expect(await plant.run(blobs.get(key))).toBeNull();
    }
  });

  test("also a result that a worker wrote and that did not count", async () => {
    const plant = short();
    const { flow } = await plant.control("c1");
    await plant.worker("w1", ["t"], async () => "small");
    await plant.admit(flow, { topic: "t", jobId: "j1" });
    await plant.pass(1_000);
    expect((await plant.job("j1")).state).toBe("SUCCEEDED");
    const { blobs, bus } = flow.world;
    // For a worker of others the input, small as it is, was put where such workers look for it.
    await plant.run(blobs.put("ctx:j1", bytes({}), flow.world.clock.now() + 1e12));
    await plant.run(blobs.put("res:j1", bytes("late"), flow.world.clock.now() + 1e12));
    const body = {
      kind: "job_result",
      jobId: "j1",
      status: "succeeded",
      workerId: "w2",
      resultPtr: "redis://res:j1",
    } as const;
    const packet = { traceId: "t", senderId: "w2", createdAtMs: 0, body };
    await plant.run(bus.publish({ id: "late", subject: RESULT, packet }));
    await plant.pass(130_000);
    expect(plant.bench.net.store.load(JOBS, "j1")).toBeNull();
    for (const key of ["res:j1", "ctx:j1"]) expect(await plant.run(blobs.get(key))).toBeNull();
  });
});
