import { describe, expect, test } from "vitest";
import { AUDIT_PAGES, auditPagesOf } from "../../../src/core/model/audit.ts";
import { FAIL_OPEN_MAX, FAIL_OPEN_MS, type FailOpenGrant } from "../../../src/core/model/fail-open.ts";
import { bypassedOf, JOBS, type Job, unreviewedOf } from "../../../src/core/model/job.ts";
import { chainAll } from "../../../src/engine/audit/chain-audit.ts";
import { composeEngine, type Engine, openEngine } from "../../../src/engine/engine.ts";
import { checkSafety, FAIL_OPEN_TOTAL } from "../../../src/engine/safety/check-job.ts";
import { closeFailOpen, listFailOpen, openAtStart, openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import { reviewBypass } from "../../../src/engine/safety/review-bypass.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "../harness.ts";

const WISH = { scope: "*", reason: "kernel upgrade went wrong", by: "ann", forMs: 60_000 };
const MINUTE_MS = 60_000;

async function open(harness: Harness, engine: Engine, request: Partial<typeof WISH> = {}): Promise<FailOpenGrant> {
  const opened = await harness.run(openFailOpen(engine, { ...WISH, ...request }));
  if (opened.kind !== "opened") throw new Error(opened.kind);
  return opened.lease;
}

const jobs = (harness: Harness): readonly Job[] => [...harness.sim.net.store.rows(JOBS)].map(({ value }) => value);

describe("under a fail-open lease", () => {
  test("L33: jobs go without a verdict: labelled, remembered, counted, audited, listed for review", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const { engine } = await harness.control("c1", "remote");
    await harness.worker("w1", ["demo.echo"], async (item) => item.labels);
    const lease = await open(harness, engine);
    const id = idOf(await harness.admit(engine, { topic: "demo.echo", labels: { a: "b" } }));
    await harness.pass(5_000);
    const job = await harness.job(id);
    const reason = "fail-open: safety unavailable -- connection refused";
    const labels = { a: "b", safety_bypassed: "true", safety_bypass_reason: reason };
    expect(job).toMatchObject({ state: "SUCCEEDED", labels, safety: { effect: "allow", reason } });
    expect(job.bypass).toMatchObject({ leaseId: lease.id, reason });
    expect(job.output).toEqual({ kind: "inline", value: labels });
    expect(job.history.map(({ event }) => event)).toContain("bypassed");
    expect(harness.sim.net.store.total(FAIL_OPEN_TOTAL)).toBe(1);
    expect(harness.sim.net.counting.counters.get("cordum_scheduler_input_fail_open_total")).toBe(1);
    expect(await toldIn(harness, engine, "default")).toContain("fail_open bypassed by cordum");
    expect(await toldIn(harness, engine, "*")).toContain("fail_open opened by ann");
    expect(await listed(harness, engine, unreviewedOf("default"))).toEqual([id]);
  });

  test("a review writes down what the policy would have said, once", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const { engine } = await harness.control("c1", "remote");
    await harness.worker("w1", ["danger.rm"], async () => "done");
    await open(harness, engine);
    const id = idOf(await harness.admit(engine, { topic: "danger.rm" }));
    await harness.pass(5_000);
    const request = { org: "default", jobId: id, by: "bob" };
    expect(await harness.run(reviewBypass(engine, request))).toMatchObject({ kind: "unavailable" });
    harness.kernel.health = "up";
    await harness.pass(15_000);
    expect(await harness.run(reviewBypass(engine, { ...request, org: "other" }))).toEqual({ kind: "not_found" });
    expect(await harness.run(reviewBypass(engine, request))).toMatchObject({
      kind: "reviewed",
      verdict: { effect: "deny" },
    });
    expect(await harness.run(reviewBypass(engine, request))).toMatchObject({ kind: "reviewed_already" });
    expect(await harness.job(id)).toMatchObject({
      state: "SUCCEEDED",
      bypass: { reviewedBy: "bob", verdict: { effect: "deny", ruleId: "deny" } },
    });
    expect(await listed(harness, engine, unreviewedOf("default"))).toEqual([]);
    expect(await listed(harness, engine, bypassedOf("default"))).toEqual([id]);
  });

  test("only its own scope goes; a verdict is never bypassed", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1", "remote");
    await harness.worker("w1", ["demo.echo", "danger.rm"], async () => "done");
    await open(harness, engine, { scope: "acme" });
    const denied = idOf(await harness.admit(engine, { topic: "danger.rm", org: "acme" }));
    await harness.pass(1_000);
    harness.kernel.health = "hangs";
    const inside = idOf(await harness.admit(engine, { topic: "demo.echo", org: "acme" }));
    const outside = idOf(await harness.admit(engine, { topic: "demo.echo", org: "birch" }));
    await harness.pass(20_000);
    const states = await Promise.all([denied, inside, outside].map(async (id) => (await harness.job(id)).state));
    expect(states).toEqual(["DENIED", "SUCCEEDED", "PENDING"]);
  });

  test("nothing is sent after its end, not even what it had let into the backlog", async () => {
    const base = new Harness();
    const harness = new Harness({ dispatch: { ...base.settings.dispatch, windowMax: 3 } });
    harness.kernel.health = "refuses";
    const { engine } = await harness.control("c1", "remote");
    await harness.control("c2", "remote");
    const sentMs: number[] = [];
    await harness.worker("w1", ["demo.slow"], async (item) => {
      expect(item.labels.safety_bypassed).toBe("true");
      sentMs.push(engine.world.clock.now());
      await new Promise<void>((resolve) => void engine.world.clock.after(4_000, resolve));
    });
    const lease = await open(harness, engine, { forMs: 10_000 });
    await Promise.all(Array.from({ length: 60 }, () => harness.admit(engine, { topic: "demo.slow" })));
    await harness.pass(120_000);
    expect(sentMs.length).toBeGreaterThan(3);
    expect(Math.max(...sentMs)).toBeLessThan(lease.endsMs);
    expect(jobs(harness).filter(({ state }) => state === "PENDING").length).toBe(60 - sentMs.length);
    expect((await harness.run(listFailOpen(engine)))[0]).toMatchObject({ ended: { by: "cordum" } });
    expect(await toldIn(harness, engine, "*")).toContain("fail_open expired by cordum");
  });

  test("a lease that was closed lets nothing more through, from that commit on", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const [deaf, closer] = [harness.engine("c1", "remote"), harness.engine("c2", "remote")];
    const lease = await open(harness, deaf);
    expect(await harness.run(deaf.safety.grants.find("default"))).toMatchObject({ id: lease.id });
    const id = idOf(await harness.admit(deaf, { topic: "demo.echo" }));
    expect(await harness.run(closeFailOpen(closer, lease.id, "bob"))).toMatchObject({ kind: "closed" });
    // It has heard of nothing: what it remembers says that the lease is in force.
    expect(deaf.safety.grants.open).toMatchObject([{ id: lease.id }]);
    const found = harness.sim.net.store.load(JOBS, id);
    await harness.run(checkSafety(deaf, found as never));
    expect(await harness.job(id)).toMatchObject({ state: "PENDING" });
    expect((await harness.job(id)).bypass).toBeUndefined();
    expect(harness.sim.net.store.total(FAIL_OPEN_TOTAL)).toBe(0);
    expect(await harness.run(closeFailOpen(closer, lease.id, "bob"))).toMatchObject({ kind: "ended" });
  });
});

test("who was told to come back later has a verdict: an open lease does not let it go", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1", "remote");
  harness.kernel.decide = () => ({ effect: "throttle", ruleId: "slow", reason: "not so fast", snapshot: "s1" });
  await open(harness, engine);
  const id = idOf(await harness.admit(engine, { topic: "demo.echo" }));
  await harness.pass(100);
  harness.kernel.health = "refuses";
  await harness.pass(40_000);
  expect(await harness.job(id)).toMatchObject({ state: "PENDING", wait: { retryClass: "safety_unavailable" } });
  expect((await harness.job(id)).bypass).toBeUndefined();
});

describe("there is no forever", () => {
  test("a wish without an end, a reason, a scope or an approver is refused", async () => {
    const harness = new Harness();
    const engine = harness.engine("c1", "remote");
    const wishes = [
      { forMs: FAIL_OPEN_MS.max + 1 },
      { forMs: Number.POSITIVE_INFINITY },
      { forMs: Number.NaN },
      { forMs: 0 },
      { reason: " " },
      { scope: "" },
      { by: "" },
    ];
    for (const request of wishes) {
      expect(await harness.run(openFailOpen(engine, { ...WISH, ...request }))).toMatchObject({ kind: "bad" });
    }
    expect(await harness.run(listFailOpen(engine))).toEqual([]);
  });

  test("POLICY_CHECK_FAIL_MODE=open: one lease for half an hour, however many processes start", async () => {
    const harness = new Harness();
    const [first, second] = [harness.engine("c1", "remote"), harness.engine("c2", "remote")];
    const lease = await harness.run(openAtStart(first));
    expect(lease).toMatchObject({ scope: "*", by: "config" });
    expect((lease?.endsMs ?? 0) - (lease?.openedMs ?? 0)).toBe(30 * MINUTE_MS);
    expect((await harness.run(openAtStart(second)))?.id).toBe(lease?.id);
    expect(harness.sim.net.counting.events.get("fail_open_opened")).toBe(1);
  });

  test("no tenant takes the places of others, and all tenants together none of those for everybody", async () => {
    const harness = new Harness();
    const engine = harness.engine("c1", "remote");
    const { ofScope, ofTenants, listed } = FAIL_OPEN_MAX;
    const kindOf = async (scope: string) => (await harness.run(openFailOpen(engine, { ...WISH, scope }))).kind;
    for (let at = 0; at < ofScope; at++) expect(await kindOf("greedy")).toBe("opened");
    expect(await harness.run(openFailOpen(engine, { ...WISH, scope: "greedy" }))).toEqual({
      kind: "too_many",
      limit: ofScope,
    });
    for (let at = ofScope; at < ofTenants; at++) expect(await kindOf(`t${at % (ofTenants / ofScope)}`)).toBe("opened");
    expect(await kindOf("late")).toBe("too_many");
    for (let at = 0; at < ofScope; at++) expect(await kindOf("*")).toBe("opened");
    expect(await kindOf("*")).toBe("too_many");
    await harness.pass(1_000);
    await harness.run(engine.safety.grants.find("default"));
    await harness.pass(100);
    expect(engine.safety.grants.open.length).toBe(listed);
    expect(await harness.run(engine.safety.grants.find("somebody"))).toMatchObject({ scope: "*" });
  });

  test("it ends by itself across a restart", async () => {
    const harness = new Harness();
    const lease = await open(harness, harness.engine("c1", "remote"));
    harness.crash("c1");
    await harness.pass(30_000);
    const { engine } = await harness.control("c2", "remote");
    expect(await harness.run(engine.safety.grants.find("default"))).toMatchObject({ id: lease.id });
    await harness.pass(30_001);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
  });
});

describe("clocks", () => {
  test("set back while it runs: the time that passes ends it all the same", async () => {
    const harness = new Harness();
    const { engine, turn } = withClock(harness, "c1");
    await open(harness, engine);
    expect(await harness.run(engine.safety.grants.find("default"))).not.toBeNull();
    await harness.pass(30_000);
    turn(-4_000);
    expect(await harness.run(engine.safety.grants.find("default"))).not.toBeNull();
    await harness.pass(30_001);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
  });

  test("set back far: one that was opened or seen in the future is not in force", async () => {
    const harness = new Harness();
    const { engine, turn } = withClock(harness, "c1");
    await open(harness, engine, { forMs: 3_600_000 });
    turn(-60_000);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
    // A process that has just started knows only what was written: that somebody saw the lease ten minutes later.
    turn(0);
    const { control } = await harness.control("c2", "remote");
    await harness.pass(10 * MINUTE_MS);
    await harness.run(control.stop());
    const restarted = withClock(harness, "c3");
    restarted.turn(-5 * MINUTE_MS);
    expect(await harness.run(restarted.engine.safety.grants.find("default"))).toBeNull();
  });

  test("set forward past its end and back again: it was over, and stays so", async () => {
    const harness = new Harness();
    const { engine, turn } = withClock(harness, "c1");
    await open(harness, engine);
    expect(await harness.run(engine.safety.grants.find("default"))).not.toBeNull();
    turn(60_000);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
    turn(0);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
  });
});

test("L29: a denial that could not be stored is not bypassed afterwards, though the kernel is away and a lease open", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1", "remote");
  await open(harness, engine);
  const id = idOf(await harness.admit(engine, { topic: "danger.rm" }));
  const away = composeEngine({
    ...engine,
    world: { ...engine.world, store: around(engine.world.store, { commit: () => Promise.reject(new Error("away")) }) },
  });
  const found = harness.sim.net.store.load(JOBS, id) as never;
  await expect(harness.run(checkSafety(away, found))).rejects.toThrow("away");
  harness.kernel.health = "refuses";
  await harness.pass(1_000);
  await harness.run(checkSafety(engine, found));
  expect(await harness.job(id)).toMatchObject({ state: "DENIED" });
  expect(harness.sim.net.store.total(FAIL_OPEN_TOTAL)).toBe(0);
});

/** A process whose clock can be set; its timers count the time that passes. */
function withClock(harness: Harness, name: string): { engine: Engine; turn(ms: number): void } {
  const plain = harness.engine(name, "remote");
  const { clock } = plain.world;
  let offMs = 0;
  const turned = { now: () => clock.now() + offMs, after: clock.after };
  return { engine: openEngine({ ...plain.world, clock: turned }, plain.settings), turn: (ms) => (offMs = ms) };
}

async function toldIn(harness: Harness, engine: Engine, org: string): Promise<readonly string[]> {
  await harness.run(chainAll(engine));
  const page = await harness.run(engine.world.store.list(AUDIT_PAGES, { index: auditPagesOf(org), limit: 10 }));
  return page.items.flatMap(({ value }) => value.entries.map(({ kind, what, who }) => `${kind} ${what} by ${who}`));
}

async function listed(harness: Harness, engine: Engine, index: string): Promise<readonly string[]> {
  return (await harness.run(engine.world.store.list(JOBS, { index, limit: 10 }))).items.map(({ id }) => id);
}
