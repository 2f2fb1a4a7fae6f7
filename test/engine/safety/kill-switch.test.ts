// L35: a kill switch that kills.

import { describe, expect, test } from "vitest";
import { killId } from "../../../src/core/model/kill-switch.ts";
import { completeLeased } from "../../../src/engine/dispatch/job-lease.ts";
import { leaseJobs } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { engageKill, listKills, releaseKill } from "../../../src/engine/safety/kill-switch.ts";
import { refreshPools, setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { CANCEL } from "../../../src/protocol/subjects.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";
import { RunHarness } from "../run-harness.ts";

const request = { scope: "default", reason: "it sends money to strangers", by: "ann" };
const leaseWish = {
  org: "*",
  workerId: "h1",
  topics: ["t"],
  max: 10,
  waitMs: 0,
  signal: new AbortController().signal,
};
const never = () => new Promise<never>(() => {});

async function twoProcesses(): Promise<{ harness: Harness; engine: Engine; other: Engine; worked: string[] }> {
  const harness = new Harness();
  const [{ engine }, { engine: other }] = [await harness.control("c1"), await harness.control("c2")];
  const worked: string[] = [];
  await harness.worker("w1", ["t"], async ({ jobId }) => worked.push(jobId), 100);
  await harness.pass(100);
  return { harness, engine, other, worked };
}

describe("while it is engaged", () => {
  test("nothing of the tenant goes out in any process, others' work does; released, it goes on at once", async () => {
    const { harness, engine, other, worked } = await twoProcesses();
    expect(await harness.run(engageKill(engine, request))).toMatchObject({ kind: "engaged", cancelled: 0 });
    await harness.pass(100);
    const ids = [idOf(await harness.admit(engine, { topic: "t" })), idOf(await harness.admit(other, { topic: "t" }))];
    const acme = idOf(await harness.admit(other, { topic: "t", org: "acme" }));
    await harness.pass(120_000);
    expect(worked).toEqual([acme]);
    for (const id of ids) expect(await harness.job(id)).toMatchObject({ state: "SCHEDULED", attempt: 0 });
    expect(await harness.run(releaseKill(other, "default", "bob"))).toMatchObject({ by: "ann" });
    await harness.pass(500); // Less than a sweep.
    expect([...worked].sort()).toEqual([...ids, acme].sort());
    expect(await auditLines(harness, engine, "kill")).toEqual(["ann engaged", "bob released"]);
  });

  test("for `*` nobody's work goes out, and nobody leases any", async () => {
    const { harness, engine, other, worked } = await twoProcesses();
    await harness.run(engageKill(engine, { ...request, scope: "*" }));
    await harness.pass(100);
    for (const org of ["default", "acme"]) await harness.admit(other, { topic: "t", org });
    expect(await harness.run(leaseJobs(engine, leaseWish))).toEqual([]);
    expect(await harness.run(leaseJobs(other, leaseWish))).toEqual([]);
    await harness.pass(60_000);
    expect(worked).toEqual([]);
    expect(await harness.run(leaseJobs(other, leaseWish))).toEqual([]);
  });

  test("retries and steps of workflows wait as well, and are explained", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    let tries = 0;
    await harness.worker("w1", ["t"], async () => {
      tries += 1;
      throw new Error("once more");
    });
    await harness.apply(engine, { id: "one", steps: { a: { topic: "t" } } });
    const failing = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(10);
    expect((await harness.job(failing)).state).toBe("RETRYING");
    await harness.run(engageKill(engine, request));
    const before = tries;
    const run = await harness.started(engine, "one");
    await harness.pass(60_000);
    expect(tries).toBe(before);
    for (const jobId of [failing, `${run}:a@1`]) {
      const explained = await harness.run(explain(engine, { org: "default", jobId, isForAll: false }));
      expect(explained).toMatchObject({ explanation: { wait: { reason: "killed" } } });
      const text = JSON.stringify(explained);
      expect(text).toContain("it sends money to strangers");
      expect(text).toContain("cordum kill release --scope 'default'");
    }
  });

  test("a process that was told nothing has found out after half a minute, and what it sent is stopped", async () => {
    const { harness, engine, other } = await twoProcesses();
    Object.assign(engine.world.bus, { tell: () => {} });
    const id = idOf(await harness.admit(other, { topic: "t", org: "acme" }));
    await harness.pass(10);
    await harness.worker("slow", ["s"], never);
    await harness.pass(100);
    await harness.run(engageKill(engine, request));
    const sent = idOf(await harness.admit(other, { topic: "s" }));
    await harness.pass(10);
    expect((await harness.job(sent)).state).toBe("DISPATCHED");
    await harness.pass(40_000);
    expect((await harness.job(sent)).state).toBe("CANCELLED");
    const late = idOf(await harness.admit(other, { topic: "s" }));
    await harness.pass(5_000);
    expect((await harness.job(late)).state).toBe("SCHEDULED");
    expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });
});

describe("what is with workers", () => {
  test("is cancelled at once, the workers are told, and what they say later changes nothing", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const told: string[] = [];
    await harness.run(
      engine.world.bus.subscribe(CANCEL, ({ body }) => {
        if (body.kind === "job_cancel") told.push(`${body.jobId} ${body.requestedBy}: ${body.reason}`);
      }),
    );
    await harness.worker("w1", ["t"], never);
    const mine = idOf(await harness.admit(engine, { topic: "t" }));
    const others = idOf(await harness.admit(engine, { topic: "t", org: "acme" }));
    await harness.admit(engine, { topic: "far" });
    await harness.pass(100);
    const [leased] = await harness.run(leaseJobs(engine, { ...leaseWish, topics: ["far"] }));
    expect(await harness.run(engageKill(engine, request))).toMatchObject({ kind: "engaged", cancelled: 2 });
    expect(await harness.job(mine)).toMatchObject({
      state: "CANCELLED",
      error: { message: "killed: it sends money to strangers" },
    });
    expect((await harness.job(others)).state).toBe("DISPATCHED");
    await harness.pass(100);
    expect(told).toContain(`${mine} ann: killed: it sends money to strangers`);
    const holder = { org: "*", jobId: leased?.id ?? "", leaseId: leased?.leaseId ?? "" };
    expect(await harness.run(completeLeased(engine, holder, "done"))).toMatchObject({ kind: "lost" });
  });

  test("of all tenants, and more of them than one page has", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["t"], never, 1_000);
    for (let index = 0; index < 150; index += 1)
      await harness.admit(engine, { topic: "t", org: index % 2 ? "a" : "b" });
    await harness.pass(10);
    expect(await harness.run(engageKill(engine, { ...request, scope: "*" }))).toMatchObject({ cancelled: 150 });
  });
});

test("the process that engages it dies at once: another one stops what is with workers", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  await harness.control("c2");
  let isStopped = false;
  const hang = ({ signal }: { signal: AbortSignal }) => {
    signal.addEventListener("abort", () => (isStopped = true));
    return never();
  };
  await harness.worker("w1", ["t"], hang, 10, { extendsForMs: 3_600_000 });
  const id = idOf(await harness.admit(engine, { topic: "t" }));
  const acme = idOf(await harness.admit(engine, { topic: "t", org: "acme" }));
  await harness.pass(1_000);
  harness.sim.net.onCommit = (by, change) => {
    if (by.name === "c1" && change.puts.some(({ id: key }) => key === killId("default"))) harness.crash("c1");
  };
  engageKill(engine, request).catch(() => {}); // It never answers.
  await harness.pass(60_000);
  expect(await harness.job(id)).toMatchObject({ state: "CANCELLED", error: { message: `killed: ${request.reason}` } });
  expect(isStopped).toBe(true);
  expect((await harness.job(acme)).state).not.toBe("CANCELLED");
});

test("engaging it twice keeps the first, and ends what is out by then; releasing it twice is fine", async () => {
  const { harness, engine, other } = await twoProcesses();
  await harness.run(engageKill(engine, request));
  expect(await harness.run(engageKill(other, { ...request, by: "bob" }))).toMatchObject({
    kind: "already",
    kill: { by: "ann" },
  });
  expect(await harness.run(listKills(other))).toMatchObject([{ scope: "default", by: "ann" }]);
  expect(await harness.run(releaseKill(engine, "default", "ann"))).not.toBeNull();
  expect(await harness.run(releaseKill(engine, "default", "ann"))).toBeNull();
  expect(await harness.run(listKills(other))).toEqual([]);
});

test("a look that began before it was engaged does not release it, nor does a pool that is drained", async () => {
  const { harness, engine } = await twoProcesses();
  const { store } = engine.world;
  let answer = () => {};
  const list = store.list.bind(store);
  Object.assign(store, {
    list: async (...args: Parameters<typeof list>) => {
      const page = await list(...args);
      Object.assign(store, { list });
      await new Promise<void>((resolve) => (answer = resolve));
      return page;
    },
  });
  const slow = refreshPools(engine);
  await harness.pass(100);
  await harness.run(engageKill(engine, request));
  answer();
  await harness.run(slow);
  expect(engine.pools.killOf("default")).toMatchObject({ by: "ann" });
  await harness.run(setDraining(engine, "old", true, "ann"));
  expect(engine.pools.killOf("default")).not.toBeNull();
  expect([...engine.pools.draining]).toEqual(["old"]);
});
