import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { compile } from "../../../src/core/policy/compile.ts";
import { evaluate } from "../../../src/core/policy/evaluate.ts";
import { openEngine } from "../../../src/engine/engine.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { approve } from "../../../src/engine/safety/approve-job.ts";
import { checkSafety } from "../../../src/engine/safety/check-job.ts";
import { openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import type { Change } from "../../../src/ports/store.ts";
import { DLQ } from "../../../src/protocol/subjects.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { policy } from "../../core/policy/samples.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";

const approvalRequired = {
  effect: "require_approval",
  ruleId: "r",
  reason: "a human must look",
  snapshot: "s1",
} as const;

describe("an input too large for the job's record", () => {
  test.each(["local", "remote"] as const)("is still covered by a rule on the input, kernel %s", async (safety) => {
    const { limits } = defaultSettings();
    const harness = new Harness({ limits: { ...limits, inlineBytesMax: 1_000 } });
    const when = "has(input.amount) && input.amount > 1000";
    const large = { match: { topics: ["pay"], when }, decision: "require_approval" } as const;
    const snapshot = compile(policy([large], "allow"));
    harness.kernel.decide = (request) => evaluate(snapshot, request);
    const { engine } = await harness.control("c1", safety);
    const stateOf = async (facts: Record<string, unknown>) => {
      const id = idOf(await harness.admit(engine, { topic: "pay", ...facts }));
      await harness.pass(1_000);
      return (await harness.job(id)).state;
    };
    const padding = "x".repeat(2_000);
    expect(await stateOf({ input: { amount: 5 } })).toBe("SCHEDULED");
    expect(await stateOf({ input: { amount: 82_000 } })).toBe("APPROVAL_REQUIRED");
    expect(await stateOf({ input: { amount: 82_000, padding } })).toBe("APPROVAL_REQUIRED");
    const { blobs, clock } = engine.world;
    await harness.run(blobs.put("ctx:j", new TextEncoder().encode('{"amount":82000}'), clock.now() + 1e9));
    expect(await stateOf({ jobId: "j", inputPtr: "ctx:j" })).toBe("APPROVAL_REQUIRED");
    expect(await stateOf({ input: { amount: 82_000, padding }, topic: "look" })).toBe("SCHEDULED");
  });
});

describe("redriving a dead letter", () => {
  test("does not bypass a required approval, even with an open fail-open lease", async () => {
    const { approval } = defaultSettings();
    const harness = new Harness({ approval: { ...approval, expiresMs: 600_000 } });
    harness.kernel.decide = () => approvalRequired;
    const { engine } = await harness.control("c1", "remote");
    let handled = 0;
    await harness.worker("w1", ["t"], async () => handled++);
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(600_000 + 10_000);
    expect(await harness.job(id)).toMatchObject({ state: "TIMEOUT", error: { name: "ApprovalExpired" } });

    harness.kernel.health = "refuses";
    await harness.run(openFailOpen(engine, { scope: "*", reason: "outage", by: "ann", forMs: 600_000 }));
    await harness.run(redriveDeadLetter(engine, { org: "default", id, by: "bob" }));
    await harness.pass(60_000);
    expect(await harness.job(id)).toMatchObject({ state: "PENDING", safety: approvalRequired });
    expect((await harness.job(id)).bypass).toBeUndefined();
    expect(handled).toBe(0);
    harness.kernel.health = "up";
    await harness.pass(60_000);
    expect((await harness.job(id)).state).toBe("APPROVAL_REQUIRED");
  });

  test("publishes another dead letter when the job ends again in the same attempt", async () => {
    const settings = defaultSettings();
    const harness = new Harness({ approval: { ...settings.approval, expiresMs: 10_000 } });
    harness.kernel.decide = () => approvalRequired;
    const { engine } = await harness.control("c1");
    const published: string[] = [];
    const handle = async (delivery: { readonly id: string }) => {
      published.push(delivery.id);
      return { kind: "ack" } as const;
    };
    await harness.run(engine.world.bus.consume(DLQ, "watchers", handle));
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(15_000);
    await harness.run(redriveDeadLetter(engine, { org: "default", id, by: "bob" }));
    await harness.pass(15_000);
    expect(await harness.job(id)).toMatchObject({ state: "TIMEOUT", attempt: 0 });
    expect(published.length).toBe(2);
  });
});

describe("a process that crashes at the commit of a decision", () => {
  /** An engine whose process crashes after it has written a job. */
  function crashingEngine(harness: Harness, name: string, safety: "local" | "remote") {
    const engine = harness.engine(name, safety);
    const { store } = engine.world;
    const commit = async (change: Change) => {
      const committed = await store.commit(change);
      if (change.puts.some(({ table }) => table === JOBS.name)) harness.crash(name);
      return committed;
    };
    return openEngine({ ...engine.world, store: around(store, { commit }) }, engine.settings);
  }

  test("keeps the audit line of the decision", async () => {
    const harness = new Harness();
    const id = idOf(await harness.admit(harness.engine("c0", "remote"), { topic: "danger.rm" }));
    const found = harness.sim.net.store.load(JOBS, id);
    void checkSafety(crashingEngine(harness, "c1", "remote"), found as never).catch(() => {});
    await harness.pass(5_000);
    const { engine } = await harness.control("c2", "remote");
    await harness.pass(5_000);
    expect((await harness.job(id)).state).toBe("DENIED");
    expect(await auditLines(harness, engine, "decision")).toEqual(["unknown deny"]);
  });

  test("keeps the audit lines of a void approval", async () => {
    const harness = new Harness();
    harness.kernel.decide = () => approvalRequired;
    const { engine } = await harness.control("c1");
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    harness.kernel.decide = () => ({ ...approvalRequired, effect: "deny", snapshot: "s2" });
    void approve(crashingEngine(harness, "c2", "local"), { org: "default", jobId: id, by: "bob" }).catch(() => {});
    await harness.pass(5_000);
    expect((await harness.job(id)).state).toBe("DENIED");
    expect(await auditLines(harness, engine, "approval")).toEqual(["bob void"]);
    expect(await auditLines(harness, engine, "decision")).toEqual(["unknown require_approval", "unknown deny"]);
  });

  test("keeps the audit line of a redrive", async () => {
    const settings = defaultSettings();
    const harness = new Harness({ approval: { ...settings.approval, expiresMs: 1_000 } });
    harness.kernel.decide = () => approvalRequired;
    const { engine } = await harness.control("c1");
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(5_000);
    void redriveDeadLetter(crashingEngine(harness, "c2", "local"), { org: "default", id, by: "bob" }).catch(() => {});
    await harness.pass(100);
    expect((await harness.job(id)).state).toBe("APPROVAL_REQUIRED");
    expect(await auditLines(harness, engine, "decision")).toEqual([
      "unknown require_approval",
      "unknown require_approval",
    ]);
  });
});
