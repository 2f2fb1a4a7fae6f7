import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { APPROVALS_GROUP, JOBS, jobsOf } from "../../../src/core/model/job.ts";
import type { Decision, PolicyRequest } from "../../../src/core/policy/decision.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { type ApproveOutcome, approve, reject } from "../../../src/engine/safety/approve-job.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";

/** `ask.*` needs a human; everything else is allowed. `snapshot` can be changed while it runs. */
class Office {
  readonly harness = new Harness({ approval: { ...defaultSettings().approval, expiresMs: 3_600_000 } });
  readonly worked: string[] = [];
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
    await this.harness.worker("w1", ["ask.pay"], async (item) => this.worked.push(item.jobId));
    return engine;
  }

  async submit(engine: Engine, raw: Record<string, unknown> = {}): Promise<string> {
    const id = idOf(
      await this.harness.admit(engine, { topic: "ask.pay", submittedBy: "sam", input: { usd: 1 }, ...raw }),
    );
    await this.harness.pass(1_000);
    return id;
  }

  approve(engine: Engine, jobId: string, by = "alice", more: object = {}): Promise<ApproveOutcome> {
    return this.harness.run(approve(engine, { org: "default", jobId, by, ...more }));
  }

  lines(engine: Engine): Promise<readonly string[]> {
    return auditLines(this.harness, engine, "approval");
  }
}

describe("a job that a human must decide about", () => {
  test.each(["local", "remote"] as const)("waits, is approved once, and runs; kernel %s", async (safety) => {
    const office = new Office();
    const engine = await office.open(safety);
    const id = await office.submit(engine);
    await office.harness.pass(60_000);
    expect(await office.harness.job(id)).toMatchObject({
      state: "APPROVAL_REQUIRED",
      approval: { snapshot: "s1", ruleId: "look-twice", bySubmitter: false },
    });
    expect(office.worked).toEqual([]);
    expect(await office.approve(engine, id)).toMatchObject({ kind: "approved" });
    await office.harness.pass(1_000);
    expect(office.worked).toEqual([id]);
    expect(await office.harness.job(id)).toMatchObject({ state: "SUCCEEDED", approval: { decidedBy: "alice" } });
    expect(await office.approve(engine, id)).toEqual({ kind: "not_waiting", state: "SUCCEEDED" });
  });

  test("its approval is in the audit log, in the very commit", async () => {
    const office = new Office();
    const engine = await office.open();
    const id = await office.submit(engine);
    let tables: string[] = [];
    office.harness.sim.net.onCommit = (_, change) => {
      if (change.puts.some((put) => put.table === JOBS.name && (put.value as { state: string }).state === "DISPATCHED"))
        tables = change.puts.map((put) => put.table);
    };
    await office.approve(engine, id);
    expect(tables.sort()).toEqual(["audit_pending", "job"]);
  });

  test("two approvals and a refusal at once, from three processes: exactly one counts", async () => {
    const office = new Office();
    const engine = await office.open();
    const others = [office.harness.engine("g1"), office.harness.engine("g2")] as const;
    const id = await office.submit(engine);
    const request = { org: "default", jobId: id };
    const answers = await office.harness.run(
      Promise.all([
        approve(engine, { ...request, by: "alice" }),
        approve(others[0], { ...request, by: "bob" }),
        reject(others[1], { ...request, by: "carol", why: "no" }),
      ]),
    );
    const counted = answers.filter(({ kind }) => kind === "approved" || kind === "rejected");
    expect(counted.length).toBe(1);
    expect(answers.filter(({ kind }) => kind === "not_waiting").length).toBe(2);
    await office.harness.pass(5_000);
    expect(office.worked.length).toBeLessThanOrEqual(1);
  });

  test("is not its submitter's to approve, nor another tenant's to see", async () => {
    const office = new Office();
    const engine = await office.open();
    const id = await office.submit(engine);
    expect(await office.approve(engine, id, "sam")).toEqual({ kind: "own_job" });
    expect(await office.approve(engine, id, "eve", { org: "evil" })).toEqual({ kind: "not_found" });
    expect(await office.harness.job(id)).toMatchObject({ state: "APPROVAL_REQUIRED" });
    expect(await office.lines(engine)).toEqual([]);
  });

  test("ends as TIMEOUT with a dead letter when nobody comes, and an approval after that says so", async () => {
    const office = new Office();
    const engine = await office.open();
    const id = await office.submit(engine);
    const { expiresMs = 0 } = (await office.harness.job(id)).approval ?? {};
    await office.harness.pass(expiresMs - engine.world.clock.now() - 1_000);
    expect((await office.harness.job(id)).state).toBe("APPROVAL_REQUIRED");
    await office.harness.pass(3_000);
    expect(await office.harness.job(id)).toMatchObject({ state: "TIMEOUT", error: { name: "ApprovalExpired" } });
    expect(await office.harness.run(engine.world.store.load(DEAD_LETTERS, id))).not.toBeNull();
    expect(await office.approve(engine, id)).toEqual({ kind: "not_waiting", state: "TIMEOUT" });
    expect((await office.harness.run(engine.world.store.counts(APPROVALS_GROUP, 9))).size).toBe(0);
  });

  test("an approval that comes a moment too late, before any sweep, ends it as expired", async () => {
    const office = new Office();
    const engine = office.harness.engine("gateway"); // Nobody sweeps.
    const id = await office.submit(engine);
    const { expiresMs = 0 } = (await office.harness.job(id)).approval ?? {};
    await office.harness.pass(expiresMs - engine.world.clock.now());
    expect(await office.approve(engine, id)).toEqual({ kind: "expired" });
    expect((await office.harness.job(id)).state).toBe("TIMEOUT");
  });

  test("a refusal ends it as DENIED with the reason, and no worker sees it", async () => {
    const office = new Office();
    const engine = await office.open();
    const id = await office.submit(engine);
    const refused = await office.harness.run(
      reject(engine, { org: "default", jobId: id, by: "alice", why: "too much" }),
    );
    expect(refused).toEqual({ kind: "rejected", state: "DENIED" });
    await office.harness.pass(5_000);
    expect(await office.harness.job(id)).toMatchObject({ state: "DENIED", error: { message: "too much" } });
    expect(office.worked).toEqual([]);
    expect(await office.lines(engine)).toEqual(["alice rejected"]);
  });
});

describe("L34: an approval of something else is void, and says so", () => {
  test("the policy has changed: the job is decided on anew, in the same commit, and asks again", async () => {
    const office = new Office();
    const engine = await office.open();
    const id = await office.submit(engine);
    office.snapshot = "s2";
    const answer = await office.approve(engine, id);
    expect(answer).toEqual({
      kind: "void",
      state: "APPROVAL_REQUIRED",
      why: "the policy has changed since the approval was requested",
    });
    expect(await office.harness.job(id)).toMatchObject({ approval: { snapshot: "s2" }, safety: { snapshot: "s2" } });
    expect(office.worked).toEqual([]);
    expect(await office.lines(engine)).toEqual(["alice void"]);
    expect(await office.approve(engine, id)).toMatchObject({ kind: "approved" });
  });

  test.each([
    ["deny", "DENIED"],
    ["allow", "DISPATCHED"],
  ] as const)("the new policy says %s: that is what happens", async (effect, state) => {
    const office = new Office();
    const engine = await office.open();
    const id = await office.submit(engine);
    Object.assign(office, { snapshot: "s2", effect });
    expect(await office.approve(engine, id)).toMatchObject({ kind: "void", state });
  });

  test("the input was overwritten where the client keeps it: neither approved nor worked on", async () => {
    const office = new Office();
    const { engine } = await office.harness.control("c1");
    const bytes = (usd: number) => new TextEncoder().encode(JSON.stringify({ usd }));
    const untilMs = engine.world.clock.now() + 1e9;
    const { blobs } = engine.world;
    await office.harness.run(blobs.put("ctx:j1", bytes(1), untilMs));
    await office.submit(engine, { jobId: "j1", inputPtr: "ctx:j1", input: undefined });
    await office.harness.run(blobs.put("ctx:j1", bytes(82_000), untilMs));
    let paid: unknown;
    await office.harness.worker("w2", ["ask.pay"], async (item) => {
      paid = item.input;
    });
    // What was asked about is a copy that the client cannot reach: that one is approved, and worked on.
    const { input } = await office.harness.job("j1");
    expect(input).toMatchObject({ kind: "pointer", sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(input.kind === "pointer" && input.ptr).not.toBe("ctx:j1");
    // And if somebody reaches it all the same, the approval is void.
    const ptr = input.kind === "pointer" ? input.ptr : "";
    await office.harness.run(blobs.put(ptr, bytes(5), untilMs));
    expect(await office.approve(engine, "j1")).toMatchObject({
      kind: "void",
      state: "APPROVAL_REQUIRED",
      why: "the job has changed since the approval was requested",
    });
    expect(await office.approve(engine, "j1")).toMatchObject({ kind: "approved" });
    await office.harness.pass(2_000);
    expect(paid).toEqual({ usd: 5 });
  });

  test("an input that was not there when it was asked for was looked at by nobody", async () => {
    const office = new Office();
    const engine = await office.open();
    await office.submit(engine, { jobId: "j1", inputPtr: "ctx:j1", input: undefined });
    expect(await office.approve(engine, "j1")).toEqual({ kind: "input_gone", ptr: "ctx:j1" });
    const late = new TextEncoder().encode("{}");
    await office.harness.run(engine.world.blobs.put("ctx:j1", late, engine.world.clock.now() + 1e9));
    expect(await office.approve(engine, "j1")).toMatchObject({ kind: "void", state: "APPROVAL_REQUIRED" });
    expect(await office.approve(engine, "j1")).toMatchObject({ kind: "approved" });
  });

  test("the approver looked at another hash or policy: nothing happens", async () => {
    const office = new Office();
    const engine = await office.open();
    const id = await office.submit(engine);
    expect(await office.approve(engine, id, "alice", { seen: { jobHash: "other" } })).toMatchObject({
      kind: "mistaken",
    });
    expect(await office.approve(engine, id, "alice", { seen: { snapshot: "s0" } })).toMatchObject({ kind: "mistaken" });
    expect((await office.harness.job(id)).history.map(({ event }) => event)).toEqual(["approval_required"]);
    const { jobHash = "", snapshot = "" } = (await office.harness.job(id)).approval ?? {};
    const right = { seen: { jobHash, snapshot } };
    expect(await office.approve(engine, id, "alice", right)).toMatchObject({ kind: "approved" });
  });

  test("a kernel that does not answer changes nothing", async () => {
    const office = new Office();
    const engine = await office.open("remote");
    const id = await office.submit(engine);
    office.harness.kernel.health = "refuses";
    expect(await office.approve(engine, id)).toMatchObject({ kind: "unavailable" });
    expect(await office.harness.job(id)).toMatchObject({ state: "APPROVAL_REQUIRED" });
    office.harness.kernel.health = "up";
    expect(await office.approve(engine, id)).toMatchObject({ kind: "approved" });
  });
});

test("approved jobs keep to the window of their topic", async () => {
  const office = new Office();
  const { harness } = office;
  Object.assign(harness.settings, { dispatch: { ...harness.settings.dispatch, windowMax: 1 } });
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["ask.pay"], () => new Promise(() => {}));
  const ids = [await office.submit(engine), await office.submit(engine)];
  const states = [];
  for (const id of ids) states.push(await office.approve(engine, id));
  expect(states).toEqual([
    { kind: "approved", state: "DISPATCHED" },
    { kind: "approved", state: "SCHEDULED" },
  ]);
  const listed = await harness.run(
    engine.world.store.list(JOBS, { index: jobsOf("default", "APPROVAL_REQUIRED"), limit: 9 }),
  );
  expect(listed.items).toEqual([]);
});
