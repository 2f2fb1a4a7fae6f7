import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import type { Decision } from "../../../src/core/policy/decision.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import { put } from "../../../src/ports/store.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { Harness, idOf } from "../harness.ts";

const never = () => new Promise<never>(() => {});

async function explainJob(harness: Harness, engine: Engine, jobId: string) {
  const explained = await harness.run(explain(engine, { org: "default", jobId, isForAll: true }));
  if (explained.kind !== "explained") throw new Error("not found");
  return explained;
}

describe("reason of a waiting job", () => {
  test("is no_worker, then window_full behind a full window", async () => {
    const harness = new Harness();
    Object.assign(harness.settings, { dispatch: { ...harness.settings.dispatch, windowMax: 1 } });
    const { engine } = await harness.control("c1");
    const first = idOf(await harness.admit(engine, { topic: "t" }));
    const second = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(5_000);
    expect((await explainJob(harness, engine, second)).explanation.wait?.reason).toBe("no_worker");
    await harness.worker("w1", ["t"], never);
    await harness.pass(2_000);
    const { explanation, around } = await explainJob(harness, engine, second);
    expect(explanation.wait?.reason).toBe("window_full");
    expect(around).toMatchObject({ window: { use: { used: 1, max: 1 } }, backlog: { topic: 1, tenant: 1 } });
    expect(around.workers.serving).toBe(1);
    expect((await explainJob(harness, engine, first)).explanation.wait?.reason).toMatch(/^(dispatched|running)$/);
  });

  test("is safety_unavailable with the time of the next check", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const { engine } = await harness.control("c1", "remote");
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(60_000);
    const { explanation } = await explainJob(harness, engine, id);
    expect(explanation.wait).toMatchObject({ reason: "safety_unavailable", setBy: "full:1s:30s" });
    expect(explanation.wait?.untilMs).toBeGreaterThanOrEqual(engine.world.clock.now());
    expect(explanation.sentence).toContain("connection refused");
  });

  test("names the fail-open lease that is open for the tenant", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const { engine } = await harness.control("c1", "remote");
    const needed: Decision = { effect: "require_approval", ruleId: "r", reason: "look", snapshot: "s" };
    const jobId = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(20_000);
    expect((await explainJob(harness, engine, jobId)).around.failOpen).toBeNull();
    // A job that needs an approval waits under the lease, too.
    const found = await harness.run(engine.world.store.load(JOBS, jobId));
    if (!found) throw new Error("no job");
    await harness.run(
      engine.commit({ org: "default", puts: [put(JOBS, jobId, found, { ...found.value, safety: needed })] }),
    );
    const request = { scope: "default", reason: "upgrade", by: "ann", forMs: 600_000 };
    const opened = await harness.run(openFailOpen(engine, request));
    if (opened.kind !== "opened") throw new Error(opened.kind);
    await harness.pass(20_000);
    const { explanation, around } = await explainJob(harness, engine, jobId);
    expect(explanation.wait?.reason).toBe("safety_unavailable");
    expect(around.failOpen).toEqual({ id: opened.lease.id, endsMs: opened.lease.endsMs });
    expect(explanation.sentence).toContain(`fail-open lease \`${opened.lease.id}\` ends in 10 min`);
    const other = idOf(await harness.admit(engine, { topic: "t", org: "other" }));
    const ofOther = await harness.run(explain(engine, { org: "other", jobId: other, isForAll: false }));
    expect(ofOther).toMatchObject({ kind: "explained", around: { failOpen: null } });
  });

  test("is not available for another tenant's job", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const jobId = idOf(await harness.admit(engine, { topic: "t" }));
    expect(await harness.run(explain(engine, { org: "evil", jobId, isForAll: false }))).toEqual({ kind: "not_found" });
  });
});

describe("after the retention", () => {
  function withShortRetention(): Harness {
    const harness = new Harness();
    const { job, retention } = harness.settings;
    Object.assign(harness.settings, {
      job: { ...job, deadlineMs: 60_000 },
      retention: { ...retention, jobsMs: 60_000, idempotencyMs: 60_000 },
    });
    return harness;
  }
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

  test("a job is removed with its inputs, results, approval and dead letter", async () => {
    const harness = withShortRetention();
    const { engine } = await harness.control("c1");
    const ask: Decision = { effect: "require_approval", ruleId: "r", reason: "look", snapshot: "s" };
    Object.assign(harness.kernel, { decide: () => ask });
    const { blobs } = engine.world;
    const farMs = engine.world.clock.now() + 1e12; // Third-party clients and workers may set no expiry.
    await harness.run(blobs.put("ctx:j1", bytes({ usd: 1 }), farMs));
    await harness.admit(engine, { topic: "t", jobId: "j1", inputPtr: "ctx:j1" });
    const { input } = await harness.job("j1");
    await harness.pass(61_000);
    expect(await harness.job("j1")).toMatchObject({ state: "TIMEOUT" });
    await harness.pass(70_000);
    expect(harness.sim.net.store.load(JOBS, "j1")).toBeNull();
    expect(harness.sim.net.store.load(DEAD_LETTERS, "j1")).toBeNull();
    for (const key of ["ctx:j1", input.kind === "pointer" ? input.ptr : ""]) {
      expect(await harness.run(blobs.get(key))).toBeNull();
    }
  });

  test("a worker's result that did not count is removed as well", async () => {
    const harness = withShortRetention();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["t"], async () => "small");
    await harness.admit(engine, { topic: "t", jobId: "j1" });
    await harness.pass(1_000);
    expect((await harness.job("j1")).state).toBe("SUCCEEDED");
    const { blobs, bus } = engine.world;
    // The input copy for third-party workers.
    await harness.run(blobs.put("ctx:j1", bytes({}), engine.world.clock.now() + 1e12));
    await harness.run(blobs.put("res:j1", bytes("late"), engine.world.clock.now() + 1e12));
    const body = {
      kind: "job_result",
      jobId: "j1",
      status: "succeeded",
      workerId: "w2",
      resultPtr: "redis://res:j1",
    } as const;
    const packet = { traceId: "t", senderId: "w2", createdAtMs: 0, body };
    await harness.run(bus.publish({ id: "late", subject: RESULT, packet }));
    await harness.pass(130_000);
    expect(harness.sim.net.store.load(JOBS, "j1")).toBeNull();
    for (const key of ["res:j1", "ctx:j1"]) expect(await harness.run(blobs.get(key))).toBeNull();
  });
});
