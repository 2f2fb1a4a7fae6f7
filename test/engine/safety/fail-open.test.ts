import { describe, expect, test } from "vitest";
import { AUDIT_PAGES, auditPagesOf } from "../../../src/core/model/audit.ts";
import { FAIL_OPEN_MAX, FAIL_OPEN_MS, type FailOpen } from "../../../src/core/model/fail-open.ts";
import { bypassedOf, JOBS, type Job, unreviewedOf } from "../../../src/core/model/job.ts";
import { chainAll } from "../../../src/engine/audit/chain-audit.ts";
import { type Flow, openFlow } from "../../../src/engine/engine.ts";
import { checkSafety, FAIL_OPEN_TOTAL } from "../../../src/engine/safety/check-job.ts";
import {
  closeFailOpen,
  leaseFor,
  listFailOpen,
  openAtStart,
  openFailOpen,
} from "../../../src/engine/safety/fail-open.ts";
import { reviewBypass } from "../../../src/engine/safety/review-bypass.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { idOf, Plant } from "../harness.ts";

const WISH = { scope: "*", reason: "kernel upgrade went wrong", by: "ann", forMs: 60_000 };
const MINUTE_MS = 60_000;

async function open(plant: Plant, flow: Flow, wish: Partial<typeof WISH> = {}): Promise<FailOpen> {
  const opened = await plant.run(openFailOpen(flow, { ...WISH, ...wish }));
  if (opened.kind !== "opened") throw new Error(opened.kind);
  return opened.lease;
}

const jobs = (plant: Plant): readonly Job[] => [...plant.bench.net.store.rows(JOBS)].map(({ value }) => value);

describe("under a fail-open lease", () => {
  test("L33: jobs go without a verdict: labelled, remembered, counted, audited, listed for review", async () => {
    const plant = new Plant();
    plant.kernel.health = "refuses";
    const { flow } = await plant.control("c1", "remote");
    await plant.worker("w1", ["demo.echo"], async (item) => item.labels);
    const lease = await open(plant, flow);
    const id = idOf(await plant.admit(flow, { topic: "demo.echo", labels: { a: "b" } }));
    await plant.pass(5_000);
    const job = await plant.job(id);
    const reason = "fail-open: safety unavailable -- connection refused";
    const labels = { a: "b", safety_bypassed: "true", safety_bypass_reason: reason };
    expect(job).toMatchObject({ state: "SUCCEEDED", labels, safety: { effect: "allow", reason } });
    expect(job.bypass).toMatchObject({ leaseId: lease.id, reason });
    expect(job.output).toEqual({ kind: "inline", value: labels });
    expect(job.history.map(({ event }) => event)).toContain("bypassed");
    expect(plant.bench.net.store.total(FAIL_OPEN_TOTAL)).toBe(1);
    expect(plant.bench.net.counting.counters.get("cordum_scheduler_input_fail_open_total")).toBe(1);
    expect(await toldIn(plant, flow, "default")).toContain("fail_open bypassed by cordum");
    expect(await toldIn(plant, flow, "*")).toContain("fail_open opened by ann");
    expect(await listed(plant, flow, unreviewedOf("default"))).toEqual([id]);
  });

  test("a review writes down what the policy would have said, once", async () => {
    const plant = new Plant();
    plant.kernel.health = "refuses";
    const { flow } = await plant.control("c1", "remote");
    await plant.worker("w1", ["danger.rm"], async () => "done");
    await open(plant, flow);
    const id = idOf(await plant.admit(flow, { topic: "danger.rm" }));
    await plant.pass(5_000);
    const wish = { org: "default", jobId: id, by: "bob" };
    expect(await plant.run(reviewBypass(flow, wish))).toMatchObject({ kind: "unavailable" });
    plant.kernel.health = "up";
    await plant.pass(15_000);
    expect(await plant.run(reviewBypass(flow, { ...wish, org: "other" }))).toEqual({ kind: "not_found" });
    expect(await plant.run(reviewBypass(flow, wish))).toMatchObject({ kind: "reviewed", verdict: { effect: "deny" } });
    expect(await plant.run(reviewBypass(flow, wish))).toMatchObject({ kind: "reviewed_already" });
    expect(await plant.job(id)).toMatchObject({
      state: "SUCCEEDED",
      bypass: { reviewedBy: "bob", verdict: { effect: "deny", ruleId: "deny" } },
    });
    expect(await listed(plant, flow, unreviewedOf("default"))).toEqual([]);
    expect(await listed(plant, flow, bypassedOf("default"))).toEqual([id]);
  });

  test("only its own scope goes; a verdict is never bypassed", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1", "remote");
    await plant.worker("w1", ["demo.echo", "danger.rm"], async () => "done");
    await open(plant, flow, { scope: "acme" });
    const denied = idOf(await plant.admit(flow, { topic: "danger.rm", org: "acme" }));
    await plant.pass(1_000);
    plant.kernel.health = "hangs";
    const inside = idOf(await plant.admit(flow, { topic: "demo.echo", org: "acme" }));
    const outside = idOf(await plant.admit(flow, { topic: "demo.echo", org: "birch" }));
    await plant.pass(20_000);
    const states = await Promise.all([denied, inside, outside].map(async (id) => (await plant.job(id)).state));
    expect(states).toEqual(["DENIED", "SUCCEEDED", "PENDING"]);
  });

  test("nothing is sent after its end, not even what it had let into the backlog", async () => {
    const base = new Plant();
    const plant = new Plant({ dispatch: { ...base.settings.dispatch, windowMax: 3 } });
    plant.kernel.health = "refuses";
    const { flow } = await plant.control("c1", "remote");
    await plant.control("c2", "remote");
    const sentMs: number[] = [];
    await plant.worker("w1", ["demo.slow"], async (item) => {
      expect(item.labels.safety_bypassed).toBe("true");
      sentMs.push(flow.world.clock.now());
      await new Promise<void>((resolve) => void flow.world.clock.after(4_000, resolve));
    });
    const lease = await open(plant, flow, { forMs: 10_000 });
    await Promise.all(Array.from({ length: 60 }, () => plant.admit(flow, { topic: "demo.slow" })));
    await plant.pass(120_000);
    expect(sentMs.length).toBeGreaterThan(3);
    expect(Math.max(...sentMs)).toBeLessThan(lease.endsMs);
    expect(jobs(plant).filter(({ state }) => state === "PENDING").length).toBe(60 - sentMs.length);
    expect((await plant.run(listFailOpen(flow)))[0]).toMatchObject({ ended: { by: "cordum" } });
    expect(await toldIn(plant, flow, "*")).toContain("fail_open expired by cordum");
  });

  test("a lease that was closed lets nothing more through, from that commit on", async () => {
    const plant = new Plant();
    plant.kernel.health = "refuses";
    const [deaf, closer] = [plant.flow("c1", "remote"), plant.flow("c2", "remote")];
    const lease = await open(plant, deaf);
    expect(await plant.run(leaseFor(deaf, "default"))).toMatchObject({ id: lease.id });
    const id = idOf(await plant.admit(deaf, { topic: "demo.echo" }));
    expect(await plant.run(closeFailOpen(closer, lease.id, "bob"))).toMatchObject({ kind: "closed" });
    // It has heard of nothing: what it remembers says that the lease is in force.
    expect(deaf.safety.leases).toMatchObject([{ id: lease.id }]);
    const found = plant.bench.net.store.load(JOBS, id);
    await plant.run(checkSafety(deaf, found as never));
    expect(await plant.job(id)).toMatchObject({ state: "PENDING" });
    expect((await plant.job(id)).bypass).toBeUndefined();
    expect(plant.bench.net.store.total(FAIL_OPEN_TOTAL)).toBe(0);
    expect(await plant.run(closeFailOpen(closer, lease.id, "bob"))).toMatchObject({ kind: "ended" });
  });
});

test("who was told to come back later has a verdict: an open lease does not let it go", async () => {
  const plant = new Plant();
  const { flow } = await plant.control("c1", "remote");
  plant.kernel.decide = () => ({ effect: "throttle", ruleId: "slow", reason: "not so fast", snapshot: "s1" });
  await open(plant, flow);
  const id = idOf(await plant.admit(flow, { topic: "demo.echo" }));
  await plant.pass(100);
  plant.kernel.health = "refuses";
  await plant.pass(40_000);
  expect(await plant.job(id)).toMatchObject({ state: "PENDING", wait: { retryClass: "safety_unavailable" } });
  expect((await plant.job(id)).bypass).toBeUndefined();
});

describe("there is no forever", () => {
  test("a wish without an end, a reason, a scope or an approver is refused", async () => {
    const plant = new Plant();
    const flow = plant.flow("c1", "remote");
    const wishes = [
      { forMs: FAIL_OPEN_MS.max + 1 },
      { forMs: Number.POSITIVE_INFINITY },
      { forMs: Number.NaN },
      { forMs: 0 },
      { reason: " " },
      { scope: "" },
      { by: "" },
    ];
    for (const wish of wishes) {
      expect(await plant.run(openFailOpen(flow, { ...WISH, ...wish }))).toMatchObject({ kind: "bad" });
    }
    expect(await plant.run(listFailOpen(flow))).toEqual([]);
  });

  test("POLICY_CHECK_FAIL_MODE=open: one lease for half an hour, however many processes start", async () => {
    const plant = new Plant();
    const [first, second] = [plant.flow("c1", "remote"), plant.flow("c2", "remote")];
    const lease = await plant.run(openAtStart(first));
    expect(lease).toMatchObject({ scope: "*", by: "config" });
    expect((lease?.endsMs ?? 0) - (lease?.openedMs ?? 0)).toBe(30 * MINUTE_MS);
    expect((await plant.run(openAtStart(second)))?.id).toBe(lease?.id);
    expect(plant.bench.net.counting.events.get("fail_open_opened")).toBe(1);
  });

  test("no tenant takes the places of others, and all tenants together none of those for everybody", async () => {
    const plant = new Plant();
    const flow = plant.flow("c1", "remote");
    const { ofScope, ofTenants, listed } = FAIL_OPEN_MAX;
    const kindOf = async (scope: string) => (await plant.run(openFailOpen(flow, { ...WISH, scope }))).kind;
    for (let at = 0; at < ofScope; at++) expect(await kindOf("greedy")).toBe("opened");
    expect(await plant.run(openFailOpen(flow, { ...WISH, scope: "greedy" }))).toEqual({
      kind: "too_many",
      limit: ofScope,
    });
    for (let at = ofScope; at < ofTenants; at++) expect(await kindOf(`t${at % (ofTenants / ofScope)}`)).toBe("opened");
    expect(await kindOf("late")).toBe("too_many");
    for (let at = 0; at < ofScope; at++) expect(await kindOf("*")).toBe("opened");
    expect(await kindOf("*")).toBe("too_many");
    await plant.pass(1_000);
    await plant.run(leaseFor(flow, "default"));
    await plant.pass(100);
    expect(flow.safety.leases.length).toBe(listed);
    expect(await plant.run(leaseFor(flow, "somebody"))).toMatchObject({ scope: "*" });
  });

  test("it ends by itself across a restart", async () => {
    const plant = new Plant();
    const lease = await open(plant, plant.flow("c1", "remote"));
    plant.crash("c1");
    await plant.pass(30_000);
    const { flow } = await plant.control("c2", "remote");
    expect(await plant.run(leaseFor(flow, "default"))).toMatchObject({ id: lease.id });
    await plant.pass(30_001);
    expect(await plant.run(leaseFor(flow, "default"))).toBeNull();
  });
});

describe("clocks", () => {
  test("set back while it runs: the time that passes ends it all the same", async () => {
    const plant = new Plant();
    const { flow, turn } = withClock(plant, "c1");
    await open(plant, flow);
    expect(await plant.run(leaseFor(flow, "default"))).not.toBeNull();
    await plant.pass(30_000);
    turn(-4_000);
    expect(await plant.run(leaseFor(flow, "default"))).not.toBeNull();
    await plant.pass(30_001);
    expect(await plant.run(leaseFor(flow, "default"))).toBeNull();
  });

  test("set back far: one that was opened or seen in the future is not in force", async () => {
    const plant = new Plant();
    const { flow, turn } = withClock(plant, "c1");
    await open(plant, flow, { forMs: 3_600_000 });
    turn(-60_000);
    expect(await plant.run(leaseFor(flow, "default"))).toBeNull();
    // A process that has just started knows only what was written: that somebody saw the lease ten minutes later.
    turn(0);
    const { control } = await plant.control("c2", "remote");
    await plant.pass(10 * MINUTE_MS);
    await plant.run(control.stop());
    const restarted = withClock(plant, "c3");
    restarted.turn(-5 * MINUTE_MS);
    expect(await plant.run(leaseFor(restarted.flow, "default"))).toBeNull();
  });

  test("set forward past its end and back again: it was over, and stays so", async () => {
    const plant = new Plant();
    const { flow, turn } = withClock(plant, "c1");
    await open(plant, flow);
    expect(await plant.run(leaseFor(flow, "default"))).not.toBeNull();
    turn(60_000);
    expect(await plant.run(leaseFor(flow, "default"))).toBeNull();
    turn(0);
    expect(await plant.run(leaseFor(flow, "default"))).toBeNull();
  });
});

test("L29: a denial that could not be stored is not bypassed afterwards, though the kernel is away and a lease open", async () => {
  const plant = new Plant();
  const flow = plant.flow("c1", "remote");
  await open(plant, flow);
  const id = idOf(await plant.admit(flow, { topic: "danger.rm" }));
  const away = {
    ...flow,
    world: { ...flow.world, store: around(flow.world.store, { commit: () => Promise.reject(new Error("away")) }) },
  };
  const found = plant.bench.net.store.load(JOBS, id) as never;
  await expect(plant.run(checkSafety(away, found))).rejects.toThrow("away");
  plant.kernel.health = "refuses";
  await plant.pass(1_000);
  await plant.run(checkSafety(flow, found));
  expect(await plant.job(id)).toMatchObject({ state: "DENIED" });
  expect(plant.bench.net.store.total(FAIL_OPEN_TOTAL)).toBe(0);
});

/** A process whose clock can be set; its timers count the time that passes. */
function withClock(plant: Plant, name: string): { flow: Flow; turn(ms: number): void } {
  const plain = plant.flow(name, "remote");
  const { clock } = plain.world;
  let offMs = 0;
  const turned = { now: () => clock.now() + offMs, after: clock.after };
  return { flow: openFlow({ ...plain.world, clock: turned }, plain.settings), turn: (ms) => (offMs = ms) };
}

async function toldIn(plant: Plant, flow: Flow, org: string): Promise<readonly string[]> {
  await plant.run(chainAll(flow));
  const page = await plant.run(flow.world.store.list(AUDIT_PAGES, { index: auditPagesOf(org), limit: 10 }));
  return page.items.flatMap(({ value }) => value.entries.map(({ kind, what, who }) => `${kind} ${what} by ${who}`));
}

async function listed(plant: Plant, flow: Flow, index: string): Promise<readonly string[]> {
  return (await plant.run(flow.world.store.list(JOBS, { index, limit: 10 }))).items.map(({ id }) => id);
}
