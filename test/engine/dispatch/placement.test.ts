import { describe, expect, test } from "vitest";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { setDraining } from "../../../src/engine/workers/worker-pools.ts";
import type { Bus } from "../../../src/ports/bus.ts";
import type { JobRequest, Packet, PacketBody } from "../../../src/protocol/packet.ts";
import { HANDSHAKE, HEARTBEAT, SUBMIT } from "../../../src/protocol/subjects.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "../harness.ts";

const never = () => new Promise(() => {});
const packet = (body: PacketBody): Packet => ({ traceId: "", senderId: "test", createdAtMs: 0, body });

/** Records the subject and request of every dispatch. */
function spy(engine: Engine, change: Partial<Bus> = {}) {
  const { bus } = engine.world;
  const sent: { readonly subject: string; readonly request: JobRequest }[] = [];
  const dispatch: Bus["dispatch"] = (subject, packet) => {
    sent.push({ subject, request: packet.body as JobRequest });
    return bus.dispatch(subject, packet);
  };
  Object.assign(engine.world, { bus: around(bus, { dispatch, ...change }) });
  return sent;
}

describe("placement", () => {
  test("L41: distributes a burst between heartbeats over all workers by capacity", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const started = { small: 0, large: 0 };
    const start = (name: "small" | "large") => () => {
      started[name]++;
      return never();
    };
    await harness.worker("small", ["t"], start("small"), 10);
    await harness.worker("large", ["t"], start("large"), 30);
    await harness.pass(100);
    for (let index = 0; index < 40; index++) await harness.admit(engine, { topic: "t" });
    await harness.pass(100);
    expect(started).toEqual({ small: 10, large: 30 });
  });

  test("dispatches to the worker's own subject and falls back at once when that worker has crashed", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const sent = spy(engine);
    await harness.worker("a", ["t"], never);
    await harness.worker("b", ["t"], async () => "done");
    await harness.pass(100);
    harness.crash("a");
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100);
    expect(sent.map(({ subject }) => subject)).toEqual(["worker.a.jobs", "job.t"]);
    expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED", attempt: 1, workerId: "b" });
  });

  test("a stopping worker receives no new jobs and finishes its current ones", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    let finish = () => {};
    const stop = await harness.worker("a", ["t"], () => new Promise<void>((resolve) => (finish = resolve)));
    const first = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100);
    const stopped = stop();
    await harness.pass(100);
    const second = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100);
    finish();
    await harness.run(stopped);
    await harness.pass(100);
    expect((await harness.job(first)).state).toBe("SUCCEEDED");
    expect((await harness.job(second)).state).toBe("SCHEDULED");
  });

  test("a job without a capable worker waits with a reason and does not block other jobs", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const handled: string[] = [];
    await harness.worker("plain", ["t"], async ({ jobId }) => handled.push(jobId));
    await harness.pass(100);
    const special = idOf(await harness.admit(engine, { topic: "t", requires: ["gpu"] }));
    const usual = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(100_000);
    expect(handled).toEqual([usual]);
    const waiting = await harness.job(special);
    expect(waiting).toMatchObject({ state: "RETRYING", attempt: 0, wait: { retryClass: "no_worker" } });
    expect(waiting.wait?.reason).toContain("`gpu`");
    await harness.worker("able", ["t"], async () => "done", 1, { capabilities: ["gpu"] });
    await harness.pass(1_000);
    expect(await harness.job(special)).toMatchObject({ state: "SUCCEEDED", workerId: "able", attempt: 1 });
  });

  test("L36: a heartbeat without a handshake starts waiting jobs within a second", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(300_000);
    const { world } = harness.sim.enter("foreign");
    const got: string[] = [];
    await harness.run(world.bus.serve("job.t", ({ body }) => got.push((body as JobRequest).jobId)));
    world.bus.broadcast(HEARTBEAT, packet({ kind: "heartbeat", workerId: "foreign", topics: ["job.t"] }));
    await harness.pass(1_000);
    expect(got).toEqual([id]);
  });
});

describe("pools", () => {
  test("a draining pool receives no new jobs in any process until it is resumed", async () => {
    const harness = new Harness();
    const [{ engine }, { engine: other }] = [await harness.control("c1"), await harness.control("c2")];
    const handled: string[] = [];
    await harness.worker("a", ["t"], async ({ jobId }) => handled.push(jobId), 10, { pool: "old" });
    await harness.pass(100);
    expect(await harness.run(setDraining(engine, "old", true, "ann"))).toMatchObject({ isDraining: true, by: "ann" });
    expect(await harness.run(setDraining(engine, "old", true, "ann"))).toBeNull();
    await harness.pass(100);
    const ids = [idOf(await harness.admit(engine, { topic: "t" })), idOf(await harness.admit(other, { topic: "t" }))];
    await harness.pass(60_000);
    expect(handled).toEqual([]);
    for (const id of ids) expect(await harness.job(id)).toMatchObject({ state: "SCHEDULED", attempt: 0 });
    await harness.run(setDraining(other, "old", false, "ann"));
    await harness.pass(3_000);
    expect(handled.sort()).toEqual(ids.sort());
  });

  test("jobs of a draining pool go to another pool of the topic", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.worker("a", ["t"], async () => "old", 10, { pool: "old" });
    await harness.worker("b", ["t"], async () => "new", 1, { pool: "new" });
    await harness.run(setDraining(engine, "old", true, "ann"));
    await harness.pass(100);
    const ids = [];
    for (let index = 0; index < 5; index++) ids.push(idOf(await harness.admit(engine, { topic: "t" })));
    await harness.pass(1_000);
    for (const id of ids) expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED", workerId: "b" });
  });

  test("settings define topics and capabilities for workers that only report their pool", async () => {
    const harness = new Harness({ pools: { p: { topics: ["t.*"], requires: ["gpu"] } } });
    const { engine } = await harness.control("c1");
    const { world } = harness.sim.enter("foreign");
    const other = idOf(await harness.admit(engine, { topic: "t.x" }));
    await harness.pass(300_000);
    const got: string[] = [];
    await harness.run(world.bus.serve("job.t.x", ({ body }) => got.push((body as JobRequest).jobId)));
    world.bus.broadcast(HEARTBEAT, packet({ kind: "heartbeat", workerId: "foreign", pool: "p" }));
    await harness.pass(1_000);
    expect(got).toEqual([other]);
    const special = idOf(await harness.admit(engine, { topic: "t.x", requires: ["gpu"] }));
    const beyond = idOf(await harness.admit(engine, { topic: "t.x", requires: ["tpu"] }));
    await harness.pass(1_000);
    expect(got).toEqual([other, special]);
    expect((await harness.job(beyond)).state).toBe("RETRYING");
  });

  test("the draining state survives a crash", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.run(setDraining(engine, "old", true, "ann"));
    harness.crash("c1");
    const { engine: next } = await harness.control("c2");
    await harness.pass(100);
    expect([...next.pools.draining]).toEqual(["old"]);
  });
});

describe("third-party workers", () => {
  const thirdParty = { hasThirdPartyWorkers: true };

  test("receive the input by pointer and every field of the protocol", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const sent = spy(engine, thirdParty);
    const { world } = harness.sim.enter("foreign");
    const inputs: unknown[] = [];
    await harness.run(
      world.bus.serve("job.t", async ({ body }) => {
        const key = ((body as JobRequest).contextPtr ?? "").slice("redis://".length);
        inputs.push(JSON.parse(new TextDecoder().decode((await world.blobs.get(key)) ?? undefined)));
      }),
    );
    const raw = { topic: "t", input: { a: 1 }, labels: { l: "x" }, actorId: "ann", riskTags: ["r"] };
    const id = idOf(await harness.admit(engine, raw));
    await harness.pass(100);
    expect(inputs).toEqual([{ a: 1 }]);
    expect(sent[0]?.request).toMatchObject({
      contextPtr: expect.stringMatching(new RegExp(`^redis://cordum:payload:default/job/${id}/[0-9a-f]{64}$`)),
      labels: { l: "x" },
      principalId: "ann",
      meta: { tenantId: "default", actorId: "ann", riskTags: ["r"], labels: { l: "x" } },
    });
  });

  test("receive the constraints in their environment with wire names", async () => {
    const harness = new Harness();
    const constraints = { budgets: { maxRuntimeMs: 5_000 }, sandbox: { networkAllowlist: ["a.example"] } };
    const verdict = { effect: "allow_with_constraints", ruleId: "r", reason: "", snapshot: "s", constraints } as const;
    Object.assign(harness.kernel, { decide: () => verdict });
    const { engine } = await harness.control("c1");
    const sent = spy(engine, thirdParty);
    const { world } = harness.sim.enter("foreign");
    await harness.run(world.bus.serve("job.t", () => {}));
    await harness.admit(engine, { topic: "t" });
    await harness.pass(100);
    expect(JSON.parse(sent[0]?.request.env?.CORDUM_CONSTRAINTS ?? "")).toEqual({
      budgets: { max_runtime_ms: 5_000 },
      sandbox: { network_allowlist: ["a.example"] },
    });
  });

  test("one with its own subject but without inline input support receives a pointer", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const sent = spy(engine, thirdParty);
    const { world } = harness.sim.enter("foreign");
    await harness.run(world.bus.serve("worker.foreign.jobs", () => {}));
    const hello = {
      componentId: "foreign",
      role: "worker",
      readyTopics: ["job.t"],
      capabilities: { direct: true },
    } as const;
    world.bus.broadcast(HANDSHAKE, packet({ kind: "handshake", ...hello }));
    await harness.pass(100);
    const id = idOf(await harness.admit(engine, { topic: "t", input: 1 }));
    await harness.pass(100);
    expect(sent).toMatchObject([{ subject: "worker.foreign.jobs" }]);
    const [key = ""] = harness.sim.net.blobs.keys();
    expect(key).toContain(`/job/${id}/`);
    expect(sent[0]?.request.contextPtr).toBe(`redis://${key}`);
  });

  test("workers with inline input support need no blob", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const sent = spy(engine, thirdParty);
    await harness.worker("ours", ["t"], async () => "done");
    await harness.pass(100);
    const id = idOf(await harness.admit(engine, { topic: "t", input: 1 }));
    await harness.pass(100);
    expect(sent[0]?.request.contextPtr).toBeUndefined();
    expect(harness.sim.net.blobs.size).toBe(0);
    expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });

  test("an unsigned packet may submit only for the configured tenants; its dead letter is hidden from the named tenant", async () => {
    const harness = new Harness({ unsignedTenants: ["default", "birch"] });
    const { engine } = await harness.control("c1");
    await harness.worker("w", ["t"], async () => "done");
    const submit = (jobId: string, tenantId: string) =>
      harness.run(
        engine.world.bus.publish({
          id: `client:${jobId}`,
          subject: SUBMIT,
          packet: packet({ kind: "job_request", jobId, topic: "t", tenantId, input: 1 }),
        }),
      );
    await submit("j1", "acme");
    await submit("j2", "birch");
    await harness.pass(1_000);
    expect(await harness.job("birch~j2")).toMatchObject({ org: "birch", state: "SUCCEEDED" });
    await expect(harness.job("acme~j1")).rejects.toThrow("no job");
    const deadLetter = await harness.run(engine.world.store.load(DEAD_LETTERS, `${SUBMIT}/client:j1`));
    expect(deadLetter?.value).toMatchObject({ org: "*", reason: "permanent" });
    expect(deadLetter?.value.error.message).toContain("`acme`");
  });
});
