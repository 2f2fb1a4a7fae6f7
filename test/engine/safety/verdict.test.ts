/** What stands between a job and its work: a verdict on the whole of it, which nothing replaces and the log knows of. */
import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { openFlow } from "../../../src/engine/engine.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { checkSafety } from "../../../src/engine/safety/check-job.ts";
import { openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import type { Change } from "../../../src/ports/store.ts";
import { DLQ } from "../../../src/protocol/subjects.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { policy } from "../../core/policy/samples.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { idOf, Plant } from "../harness.ts";

const ask = { effect: "require_approval", ruleId: "r", reason: "a human must look", snapshot: "s1" } as const;

describe("an input that is too large for the job's record", () => {
  test.each(["local", "remote"] as const)("does not pass a rule about the input, kernel %s", async (safety) => {
    const { limits } = defaultSettings();
    const plant = new Plant({ limits: { ...limits, inlineBytesMax: 1_000 } });
    const when = "has(input.amount) && input.amount > 1000";
    const large = { match: { topics: ["pay"], when }, decision: "require_approval" } as const;
    const snapshot = compile(policy([large], "allow"));
    plant.kernel.decide = (request) => evaluate(snapshot, request);
    const { flow } = await plant.control("c1", safety);
    const stateOf = async (facts: Record<string, unknown>) => {
      const id = idOf(await plant.admit(flow, { topic: "pay", ...facts }));
      await plant.pass(1_000);
      return (await plant.job(id)).state;
    };
    const padding = "x".repeat(2_000);
    expect(await stateOf({ input: { amount: 5 } })).toBe("SCHEDULED");
    expect(await stateOf({ input: { amount: 82_000 } })).toBe("APPROVAL_REQUIRED");
    expect(await stateOf({ input: { amount: 82_000, padding } })).toBe("APPROVAL_REQUIRED");
    expect(await stateOf({ jobId: "j", inputPtr: "ctx:j" })).toBe("APPROVAL_REQUIRED");
    expect(await stateOf({ input: { amount: 82_000, padding }, topic: "look" })).toBe("SCHEDULED");
  });
});

describe("another life", () => {
  test("does not bring what a human was to decide about past them, though the kernel is away and a lease open", async () => {
    const { approval } = defaultSettings();
    const plant = new Plant({ approval: { ...approval, expiresMs: 600_000 } });
    plant.kernel.decide = () => ask;
    const { flow } = await plant.control("c1", "remote");
    let worked = 0;
    await plant.worker("w1", ["t"], async () => worked++);
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(600_000 + 10_000);
    expect(await plant.job(id)).toMatchObject({ state: "TIMEOUT", error: { name: "ApprovalExpired" } });

    plant.kernel.health = "refuses";
    await plant.run(openFailOpen(flow, { scope: "*", reason: "outage", by: "ann", forMs: 600_000 }));
    await plant.run(retryLetter(flow, { org: "default", id, by: "bob" }));
    await plant.pass(60_000);
    expect(await plant.job(id)).toMatchObject({ state: "PENDING", safety: ask });
    expect((await plant.job(id)).bypass).toBeUndefined();
    expect(worked).toBe(0);
    plant.kernel.health = "up";
    await plant.pass(60_000);
    expect((await plant.job(id)).state).toBe("APPROVAL_REQUIRED");
  });

  test("that ends in the same attempt is told on the bus as well", async () => {
    const settings = defaultSettings();
    const plant = new Plant({ approval: { ...settings.approval, expiresMs: 10_000 } });
    plant.kernel.decide = () => ask;
    const { flow } = await plant.control("c1");
    const told: string[] = [];
    const handle = async (delivery: { readonly id: string }) => {
      told.push(delivery.id);
      return { kind: "ack" } as const;
    };
    await plant.run(flow.world.bus.consume(DLQ, "watchers", handle));
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(15_000);
    await plant.run(retryLetter(flow, { org: "default", id, by: "bob" }));
    await plant.pass(15_000);
    expect(await plant.job(id)).toMatchObject({ state: "TIMEOUT", attempt: 0 });
    expect(told.length).toBe(2);
  });
});

describe("a process that dies with the commit of a decision", () => {
  /** A store whose process is gone once it has written a job. */
  function dying(plant: Plant, name: string, safety: "local" | "remote") {
    const flow = plant.flow(name, safety);
    const { store } = flow.world;
    const commit = async (change: Change) => {
      const committed = await store.commit(change);
      if (change.puts.some(({ table }) => table === JOBS.name)) plant.crash(name);
      return committed;
    };
    return openFlow({ ...flow.world, store: around(store, { commit }) }, flow.settings);
  }

  test("leaves its line in the audit log", async () => {
    const plant = new Plant();
    const id = idOf(await plant.admit(plant.flow("c0", "remote"), { topic: "danger.rm" }));
    const found = plant.bench.net.store.load(JOBS, id);
    void checkSafety(dying(plant, "c1", "remote"), found as never).catch(() => {});
    await plant.pass(5_000);
    const { flow } = await plant.control("c2", "remote");
    await plant.pass(5_000);
    expect((await plant.job(id)).state).toBe("DENIED");
    expect(await auditLines(plant, flow, "decision")).toEqual(["unknown deny"]);
  });

  test("leaves it of a job whose approval was void, too", async () => {
    const plant = new Plant();
    plant.kernel.decide = () => ask;
    const { flow } = await plant.control("c1");
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    plant.kernel.decide = () => ({ ...ask, effect: "deny", snapshot: "s2" });
    void approve(dying(plant, "c2", "local"), { org: "default", jobId: id, by: "bob" }).catch(() => {});
    await plant.pass(5_000);
    expect((await plant.job(id)).state).toBe("DENIED");
    expect(await auditLines(plant, flow, "approval")).toEqual(["bob void"]);
    expect(await auditLines(plant, flow, "decision")).toEqual(["unknown require_approval", "unknown deny"]);
  });

  test("leaves it of a job that was revived, too", async () => {
    const settings = defaultSettings();
    const plant = new Plant({ approval: { ...settings.approval, expiresMs: 1_000 } });
    plant.kernel.decide = () => ask;
    const { flow } = await plant.control("c1");
    const id = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(5_000);
    void retryLetter(dying(plant, "c2", "local"), { org: "default", id, by: "bob" }).catch(() => {});
    await plant.pass(100);
    expect((await plant.job(id)).state).toBe("APPROVAL_REQUIRED");
    expect(await auditLines(plant, flow, "decision")).toEqual(["unknown require_approval", "unknown require_approval"]);
  });
});
