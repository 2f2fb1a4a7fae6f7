import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { APPROVALS_GROUP, JOBS } from "../../../src/core/model/job.ts";
import { jobsOf } from "../../../src/core/model/lists/job-lists.ts";
import type { Decision, PolicyRequest } from "../../../src/core/policy/decision.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { type ApproveOutcome, approve, reject } from "../../../src/engine/safety/approve-job.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";

/** `ask.*` requires approval; everything else is allowed. `snapshot` and `effect` may be changed during a test. */
class ApprovalScenario {
  readonly harness = new Harness({ approval: { ...defaultSettings().approval, expiresMs: 3_600_000 } });
  readonly ran: string[] = [];
  snapshot = "s1";
  effect: Decision["effect"] = "require_approval";

  constructor() {
    Object.assign(this.harness.kernel, {
      decide: ({ topic }: PolicyRequest): Decision => ({
        effect: topic.startsWith("ask.") ? this.effect : "allow",
        ruleId: "look-twice",
        reason: "a human must look",
        snapshot: this.snapshot,
      }),
    });
  }

  async open(safety: "local" | "remote" = "local"): Promise<Engine> {
    const { engine } = await this.harness.control("c1", safety);
    await this.harness.worker("w1", ["ask.pay"], async (item) => this.ran.push(item.jobId));
    return engine;
  }

  async submit(engine: Engine, raw: Record<string, unknown> = {}): Promise<string> {
    const id = idOf(
      await this.harness.admit(engine, { topic: "ask.pay", submittedBy: "sam", input: { usd: 1 }, ...raw }),
    );
    await this.harness.pass(1_000);
    return id;
  }

  approve(engine: Engine, jobId: string, by = "alice", overrides: object = {}): Promise<ApproveOutcome> {
    return this.harness.run(approve(engine, { org: "default", jobId, by, ...overrides }));
  }

  lines(engine: Engine): Promise<readonly string[]> {
    return auditLines(this.harness, engine, "approval");
  }
}

describe("a job that requires approval", () => {
  test.each(["local", "remote"] as const)("waits, is approved once, and runs; kernel %s", async (safety) => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open(safety);
    const id = await scenario.submit(engine);
    await scenario.harness.pass(60_000);
    expect(await scenario.harness.job(id)).toMatchObject({
      state: "APPROVAL_REQUIRED",
      approval: { snapshot: "s1", ruleId: "look-twice", bySubmitter: false },
    });
    expect(scenario.ran).toEqual([]);
    expect(await scenario.approve(engine, id)).toMatchObject({ kind: "approved" });
    await scenario.harness.pass(1_000);
    expect(scenario.ran).toEqual([id]);
    expect(await scenario.harness.job(id)).toMatchObject({ state: "SUCCEEDED", approval: { decidedBy: "alice" } });
    expect(await scenario.approve(engine, id)).toEqual({ kind: "not_waiting", state: "SUCCEEDED" });
  });

  test("is audited in the commit of its approval", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const id = await scenario.submit(engine);
    let tables: string[] = [];
    scenario.harness.sim.net.onCommit = (_, change) => {
      if (change.puts.some((put) => put.table === JOBS.name && (put.value as { state: string }).state === "DISPATCHED"))
        tables = change.puts.map((put) => put.table);
    };
    await scenario.approve(engine, id);
    expect(tables.sort()).toEqual(["audit_pending", "job"]);
  });

  test("of concurrent approvals and rejections exactly one counts", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const others = [scenario.harness.engine("g1"), scenario.harness.engine("g2")] as const;
    const id = await scenario.submit(engine);
    const request = { org: "default", jobId: id };
    const answers = await scenario.harness.run(
      Promise.all([
        approve(engine, { ...request, by: "alice" }),
        approve(others[0], { ...request, by: "bob" }),
        reject(others[1], { ...request, by: "carol", why: "no" }),
      ]),
    );
    const counted = answers.filter(({ kind }) => kind === "approved" || kind === "rejected");
    expect(counted.length).toBe(1);
    expect(answers.filter(({ kind }) => kind === "not_waiting").length).toBe(2);
    await scenario.harness.pass(5_000);
    expect(scenario.ran.length).toBeLessThanOrEqual(1);
  });

  test("cannot be approved by its submitter or seen by another tenant", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const id = await scenario.submit(engine);
    expect(await scenario.approve(engine, id, "sam")).toEqual({ kind: "own_job" });
    expect(await scenario.approve(engine, id, "eve", { org: "evil" })).toEqual({ kind: "not_found" });
    expect(await scenario.harness.job(id)).toMatchObject({ state: "APPROVAL_REQUIRED" });
    expect(await scenario.lines(engine)).toEqual([]);
  });

  test("expires as TIMEOUT with a dead letter, and cannot be approved afterwards", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const id = await scenario.submit(engine);
    const { expiresMs = 0 } = (await scenario.harness.job(id)).approval ?? {};
    await scenario.harness.pass(expiresMs - engine.world.clock.now() - 1_000);
    expect((await scenario.harness.job(id)).state).toBe("APPROVAL_REQUIRED");
    await scenario.harness.pass(3_000);
    expect(await scenario.harness.job(id)).toMatchObject({ state: "TIMEOUT", error: { name: "ApprovalExpired" } });
    expect(await scenario.harness.run(engine.world.store.load(DEAD_LETTERS, id))).not.toBeNull();
    expect(await scenario.approve(engine, id)).toEqual({ kind: "not_waiting", state: "TIMEOUT" });
    expect((await scenario.harness.run(engine.world.store.counts(APPROVALS_GROUP, 9))).size).toBe(0);
  });

  test("an approval after the expiry, before any sweep, expires the job", async () => {
    const scenario = new ApprovalScenario();
    const engine = scenario.harness.engine("gateway"); // Without a sweeper.
    const id = await scenario.submit(engine);
    const { expiresMs = 0 } = (await scenario.harness.job(id)).approval ?? {};
    await scenario.harness.pass(expiresMs - engine.world.clock.now());
    expect(await scenario.approve(engine, id)).toEqual({ kind: "expired" });
    expect((await scenario.harness.job(id)).state).toBe("TIMEOUT");
  });

  test("a rejection ends it as DENIED with the reason", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const id = await scenario.submit(engine);
    const refused = await scenario.harness.run(
      reject(engine, { org: "default", jobId: id, by: "alice", why: "too much" }),
    );
    expect(refused).toEqual({ kind: "rejected", state: "DENIED" });
    await scenario.harness.pass(5_000);
    expect(await scenario.harness.job(id)).toMatchObject({ state: "DENIED", error: { message: "too much" } });
    expect(scenario.ran).toEqual([]);
    expect(await scenario.lines(engine)).toEqual(["alice rejected"]);
  });
});

describe("L34: an outdated approval is void", () => {
  test("a changed policy decides again in the same commit and requires approval again", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const id = await scenario.submit(engine);
    scenario.snapshot = "s2";
    const answer = await scenario.approve(engine, id);
    expect(answer).toEqual({
      kind: "void",
      state: "APPROVAL_REQUIRED",
      why: "the policy has changed since the approval was requested",
    });
    expect(await scenario.harness.job(id)).toMatchObject({ approval: { snapshot: "s2" }, safety: { snapshot: "s2" } });
    expect(scenario.ran).toEqual([]);
    expect(await scenario.lines(engine)).toEqual(["alice void"]);
    expect(await scenario.approve(engine, id)).toMatchObject({ kind: "approved" });
  });

  test.each([
    ["deny", "DENIED"],
    ["allow", "DISPATCHED"],
  ] as const)("a changed policy that says %s takes effect", async (effect, state) => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const id = await scenario.submit(engine);
    Object.assign(scenario, { snapshot: "s2", effect });
    expect(await scenario.approve(engine, id)).toMatchObject({ kind: "void", state });
  });

  test("L59: a changed input is neither approved nor run", async () => {
    const scenario = new ApprovalScenario();
    const { engine } = await scenario.harness.control("c1");
    const bytes = (usd: number) => new TextEncoder().encode(JSON.stringify({ usd }));
    const stored = scenario.harness.sim.net.blobs;
    const expiresAtMs = engine.world.clock.now() + 1e9;
    stored.set("ctx:j1", { bytes: bytes(1), expiresAtMs });
    await scenario.submit(engine, { jobId: "j1", inputPtr: "ctx:j1", input: undefined });
    stored.set("ctx:j1", { bytes: bytes(82_000), expiresAtMs });
    const paid: unknown[] = [];
    await scenario.harness.worker("w2", ["ask.pay"], async (item) => paid.push(item.input));
    // The approval covers a copy whose key no client can name.
    const { input } = await scenario.harness.job("j1");
    const ptr = input.kind === "pointer" ? input.ptr : "";
    expect(ptr).toMatch(/^cordum:payload:default\/job\/j1\/[0-9a-f]{64}$/);
    await expect(scenario.harness.run(engine.world.blobs.put(ptr, bytes(5), expiresAtMs))).rejects.toThrow(
      /other bytes/,
    );
    // A copy that was damaged on the server is not approved.
    stored.set(ptr, { bytes: bytes(5), expiresAtMs });
    expect(await scenario.approve(engine, "j1")).toMatchObject({ kind: "input_gone", why: /damaged/ as never });
    stored.set(ptr, { bytes: bytes(1), expiresAtMs });
    expect(await scenario.approve(engine, "j1")).toMatchObject({ kind: "approved" });
    await scenario.harness.pass(2_000);
    expect(paid).toEqual([{ usd: 1 }]);
  });

  test("L59: an input that is damaged after the approval is not run", async () => {
    const scenario = new ApprovalScenario();
    const { engine } = await scenario.harness.control("c1");
    const stored = scenario.harness.sim.net.blobs;
    const expiresAtMs = engine.world.clock.now() + 1e9;
    await scenario.submit(engine, { jobId: "j1", input: { usd: 1, memo: "x".repeat(300_000) } });
    expect(await scenario.approve(engine, "j1")).toMatchObject({ kind: "approved" });
    const { input } = await scenario.harness.job("j1");
    stored.set(input.kind === "pointer" ? input.ptr : "", { bytes: new TextEncoder().encode("{}"), expiresAtMs });
    const paid: unknown[] = [];
    await scenario.harness.worker("w2", ["ask.pay"], async (item) => paid.push(item.input));
    await scenario.harness.pass(60_000);
    expect(paid).toEqual([]);
    expect(await scenario.harness.job("j1")).toMatchObject({
      state: "FAILED",
      error: { name: "InputLost", message: /^the input of job `j1` is damaged/ as never },
    });
  });

  test("an approval for another hash or policy is refused", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open();
    const id = await scenario.submit(engine);
    expect(await scenario.approve(engine, id, "alice", { seen: { jobHash: "other" } })).toMatchObject({
      kind: "mistaken",
    });
    expect(await scenario.approve(engine, id, "alice", { seen: { snapshot: "s0" } })).toMatchObject({
      kind: "mistaken",
    });
    expect((await scenario.harness.job(id)).history.map(({ event }) => event)).toEqual(["approval_required"]);
    const { jobHash = "", snapshot = "" } = (await scenario.harness.job(id)).approval ?? {};
    const right = { seen: { jobHash, snapshot } };
    expect(await scenario.approve(engine, id, "alice", right)).toMatchObject({ kind: "approved" });
  });

  test("an unavailable kernel changes nothing", async () => {
    const scenario = new ApprovalScenario();
    const engine = await scenario.open("remote");
    const id = await scenario.submit(engine);
    scenario.harness.kernel.health = "refuses";
    expect(await scenario.approve(engine, id)).toMatchObject({ kind: "unavailable" });
    expect(await scenario.harness.job(id)).toMatchObject({ state: "APPROVAL_REQUIRED" });
    scenario.harness.kernel.health = "up";
    expect(await scenario.approve(engine, id)).toMatchObject({ kind: "approved" });
  });
});

test("approved jobs respect the dispatch window of their topic", async () => {
  const scenario = new ApprovalScenario();
  const { harness } = scenario;
  Object.assign(harness.settings, { dispatch: { ...harness.settings.dispatch, windowMax: 1 } });
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["ask.pay"], () => new Promise(() => {}));
  const ids = [await scenario.submit(engine), await scenario.submit(engine)];
  const states = [];
  for (const id of ids) states.push(await scenario.approve(engine, id));
  expect(states).toEqual([
    { kind: "approved", state: "DISPATCHED" },
    { kind: "approved", state: "SCHEDULED" },
  ]);
  const listed = await harness.run(
    engine.world.store.list(JOBS, { index: jobsOf("default", "APPROVAL_REQUIRED"), limit: 9 }),
  );
  expect(listed.items).toEqual([]);
});
