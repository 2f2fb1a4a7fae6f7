import { describe, expect, test } from "vitest";
import { AUDIT_PAGES } from "../../../src/core/model/audit.ts";
import { FAIL_OPEN_MAX, FAIL_OPEN_MS, type FailOpenGrant } from "../../../src/core/model/fail-open.ts";
import { bypassedOf, JOBS, type Job, unreviewedOf } from "../../../src/core/model/job.ts";
import { auditPagesOf } from "../../../src/core/model/lists/audit-lists.ts";
import { chainAll } from "../../../src/engine/audit/chain-audit.ts";
import { composeEngine, type Engine, openEngine } from "../../../src/engine/engine.ts";
import { checkSafety, FAIL_OPEN_TOTAL } from "../../../src/engine/safety/check-job.ts";
import { closeFailOpen, listFailOpen, openAtStart, openFailOpen } from "../../../src/engine/safety/fail-open.ts";
import { reviewBypass } from "../../../src/engine/safety/review-bypass.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { Harness, idOf } from "../harness.ts";

const LEASE_REQUEST = { scope: "*", reason: "kernel upgrade went wrong", by: "ann", forMs: 60_000 };
const MINUTE_MS = 60_000;

async function open(
  harness: Harness,
  engine: Engine,
  request: Partial<typeof LEASE_REQUEST> = {},
): Promise<FailOpenGrant> {
  const opened = await harness.run(openFailOpen(engine, { ...LEASE_REQUEST, ...request }));
  if (opened.kind !== "opened") throw new Error(opened.kind);
  return opened.lease;
}

const jobs = (harness: Harness): readonly Job[] => [...harness.sim.net.store.rows(JOBS)].map(({ value }) => value);

test("the reason has at most 500 characters, and the duration has limits", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const { min, max } = FAIL_OPEN_MS;
  const request = (change: Partial<typeof LEASE_REQUEST>) =>
    harness.run(openFailOpen(engine, { ...LEASE_REQUEST, ...change }));
  for (const good of [{ reason: "x".repeat(500) }, { reason: "x" }, { forMs: min }, { forMs: max }])
    expect(await request(good), JSON.stringify(good)).toMatchObject({ kind: "opened" });
  const bad = [{ reason: "x".repeat(501) }, { reason: " " }, { forMs: min - 1 }, { forMs: max + 1 }, { by: " " }];
  for (const one of [...bad, { scope: "" }])
    expect(await request(one), JSON.stringify(one)).toMatchObject({ kind: "bad" });
});

test("two operators who close one lease at once: one closes it, the other finds it ended", async () => {
  const harness = new Harness();
  const [a, b] = [harness.engine("a"), harness.engine("b")];
  const { id } = await open(harness, a);
  const outcomes = await harness.run(Promise.all([closeFailOpen(a, id, "ann"), closeFailOpen(b, id, "bob")]));
  expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(["closed", "ended"]);
  const closed = (await auditedIn(harness, a, "*")).filter((line) => line.includes("closed"));
  expect(closed).toHaveLength(1);
  expect(await harness.run(closeFailOpen(a, "unknown", "ann"))).toEqual({ kind: "not_found" });
});

describe("under a fail-open lease", () => {
  test("L33: jobs run without a verdict and are labelled, counted, audited and listed for review", async () => {
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
    expect(await auditedIn(harness, engine, "default")).toContain("fail_open bypassed by cordum");
    expect(await auditedIn(harness, engine, "*")).toContain("fail_open opened by ann");
    expect(await listed(harness, engine, unreviewedOf("default"))).toEqual([id]);
  });

  test("a review records the policy's verdict once", async () => {
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

  test("only its scope is bypassed, and never a verdict", async () => {
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

  test("nothing is dispatched after its end, not even from the backlog", async () => {
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
    expect(await auditedIn(harness, engine, "*")).toContain("fail_open expired by cordum");
  });

  test("a closed lease bypasses nothing from its commit on", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const [uninformed, closer] = [harness.engine("c1", "remote"), harness.engine("c2", "remote")];
    const lease = await open(harness, uninformed);
    expect(await harness.run(uninformed.safety.grants.find("default"))).toMatchObject({ id: lease.id });
    const id = idOf(await harness.admit(uninformed, { topic: "demo.echo" }));
    expect(await harness.run(closeFailOpen(closer, lease.id, "bob"))).toMatchObject({ kind: "closed" });
    // The first process has not received the close and still has the lease cached.
    expect(uninformed.safety.grants.open).toMatchObject([{ id: lease.id }]);
    const found = harness.sim.net.store.load(JOBS, id);
    await harness.run(checkSafety(uninformed, found as never));
    expect(await harness.job(id)).toMatchObject({ state: "PENDING" });
    expect((await harness.job(id)).bypass).toBeUndefined();
    expect(harness.sim.net.store.total(FAIL_OPEN_TOTAL)).toBe(0);
    expect(await harness.run(closeFailOpen(closer, lease.id, "bob"))).toMatchObject({ kind: "ended" });
  });
});

test("a throttle verdict is not bypassed", async () => {
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

describe("limits of leases", () => {
  test("rejects a request without a valid duration, reason, scope or approver", async () => {
    const harness = new Harness();
    const engine = harness.engine("c1", "remote");
    const requests = [
      { forMs: FAIL_OPEN_MS.max + 1 },
      { forMs: Number.POSITIVE_INFINITY },
      { forMs: Number.NaN },
      { forMs: 0 },
      { reason: " " },
      { scope: "" },
      { by: "" },
    ];
    for (const request of requests) {
      expect(await harness.run(openFailOpen(engine, { ...LEASE_REQUEST, ...request }))).toMatchObject({ kind: "bad" });
    }
    expect(await harness.run(listFailOpen(engine))).toEqual([]);
  });

  test("POLICY_CHECK_FAIL_MODE=open: opens one lease of 30 minutes for all processes", async () => {
    const harness = new Harness();
    const [first, second] = [harness.engine("c1", "remote"), harness.engine("c2", "remote")];
    const lease = await harness.run(openAtStart(first));
    expect(lease).toMatchObject({ scope: "*", by: "config" });
    expect((lease?.endsMs ?? 0) - (lease?.openedMs ?? 0)).toBe(30 * MINUTE_MS);
    expect((await harness.run(openAtStart(second)))?.id).toBe(lease?.id);
    expect(harness.sim.net.counting.events.get("fail_open_opened")).toBe(1);
  });

  test("are counted per tenant, for all tenants together, and separately for `*`", async () => {
    const harness = new Harness();
    const engine = harness.engine("c1", "remote");
    const { ofScope, ofTenants, listed } = FAIL_OPEN_MAX;
    const kindOf = async (scope: string) => (await harness.run(openFailOpen(engine, { ...LEASE_REQUEST, scope }))).kind;
    for (let at = 0; at < ofScope; at++) expect(await kindOf("greedy")).toBe("opened");
    expect(await harness.run(openFailOpen(engine, { ...LEASE_REQUEST, scope: "greedy" }))).toEqual({
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
    expect(await harness.run(engine.safety.grants.find("unlisted"))).toMatchObject({ scope: "*" });
  });

  test("a lease ends across a restart", async () => {
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

describe("clock changes", () => {
  test("set back: the elapsed time still ends the lease", async () => {
    const harness = new Harness();
    const { engine, shift } = withClock(harness, "c1");
    await open(harness, engine);
    expect(await harness.run(engine.safety.grants.find("default"))).not.toBeNull();
    await harness.pass(30_000);
    shift(-4_000);
    expect(await harness.run(engine.safety.grants.find("default"))).not.toBeNull();
    await harness.pass(30_001);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
  });

  test("set back far: a lease opened or last seen in the future is not in force", async () => {
    const harness = new Harness();
    const { engine, shift } = withClock(harness, "c1");
    await open(harness, engine, { forMs: 3_600_000 });
    shift(-60_000);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
    // A restarted process only knows that the lease was last seen ten minutes later.
    shift(0);
    const { control } = await harness.control("c2", "remote");
    await harness.pass(10 * MINUTE_MS);
    await harness.run(control.stop());
    const restarted = withClock(harness, "c3");
    restarted.shift(-5 * MINUTE_MS);
    expect(await harness.run(restarted.engine.safety.grants.find("default"))).toBeNull();
  });

  test("set forward past the end and back: the lease stays ended", async () => {
    const harness = new Harness();
    const { engine, shift } = withClock(harness, "c1");
    await open(harness, engine);
    expect(await harness.run(engine.safety.grants.find("default"))).not.toBeNull();
    shift(60_000);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
    shift(0);
    expect(await harness.run(engine.safety.grants.find("default"))).toBeNull();
  });
});

test("L29: a denial that could not be stored is not bypassed by an open lease", async () => {
  const harness = new Harness();
  const engine = harness.engine("c1", "remote");
  await open(harness, engine);
  const id = idOf(await harness.admit(engine, { topic: "danger.rm" }));
  const unavailable = composeEngine({
    ...engine,
    world: {
      ...engine.world,
      store: around(engine.world.store, { commit: () => Promise.reject(new Error("unavailable")) }),
    },
  });
  const found = harness.sim.net.store.load(JOBS, id) as never;
  await expect(harness.run(checkSafety(unavailable, found))).rejects.toThrow("unavailable");
  harness.kernel.health = "refuses";
  await harness.pass(1_000);
  await harness.run(checkSafety(engine, found));
  expect(await harness.job(id)).toMatchObject({ state: "DENIED" });
  expect(harness.sim.net.store.total(FAIL_OPEN_TOTAL)).toBe(0);
});

/** An engine whose clock can be shifted; its timers measure elapsed time. */
function withClock(harness: Harness, name: string): { engine: Engine; shift(ms: number): void } {
  const plain = harness.engine(name, "remote");
  const { clock } = plain.world;
  let offsetMs = 0;
  const shifted: typeof clock = {
    now: () => clock.now() + offsetMs,
    after: (delayMs, fn) => clock.after(delayMs, fn),
  };
  return { engine: openEngine({ ...plain.world, clock: shifted }, plain.settings), shift: (ms) => (offsetMs = ms) };
}

async function auditedIn(harness: Harness, engine: Engine, org: string): Promise<readonly string[]> {
  await harness.run(chainAll(engine));
  const page = await harness.run(engine.world.store.list(AUDIT_PAGES, { index: auditPagesOf(org), limit: 10 }));
  return page.items.flatMap(({ value }) => value.entries.map(({ kind, what, who }) => `${kind} ${what} by ${who}`));
}

async function listed(harness: Harness, engine: Engine, index: string): Promise<readonly string[]> {
  return (await harness.run(engine.world.store.list(JOBS, { index, limit: 10 }))).items.map(({ id }) => id);
}
