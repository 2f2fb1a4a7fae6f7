// L35: a kill switch that kills.

import { describe, expect, test } from "vitest";
import { killId } from "../../../src/core/model/kill-switch.ts";
import { complete } from "../../../src/engine/dispatch/job-lease.ts";
import { lease } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { engageKill, listKills, releaseKill } from "../../../src/engine/safety/kill-switch.ts";
import { refreshPools, setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { CANCEL } from "../../../src/protocol/subjects.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { idOf, Plant } from "../harness.ts";
import { RunPlant } from "../run-harness.ts";

const wish = { scope: "default", reason: "it sends money to strangers", by: "ann" };
const leaseWish = {
  org: "*",
  workerId: "h1",
  topics: ["t"],
  max: 10,
  waitMs: 0,
  signal: new AbortController().signal,
};
const never = () => new Promise<never>(() => {});

async function twoProcesses(): Promise<{ plant: Plant; flow: Flow; other: Flow; worked: string[] }> {
  const plant = new Plant();
  const [{ flow }, { flow: other }] = [await plant.control("c1"), await plant.control("c2")];
  const worked: string[] = [];
  await plant.worker("w1", ["t"], async ({ jobId }) => worked.push(jobId), 100);
  await plant.pass(100);
  return { plant, flow, other, worked };
}

describe("while it is engaged", () => {
  test("nothing of the tenant goes out in any process, others' work does; released, it goes on at once", async () => {
    const { plant, flow, other, worked } = await twoProcesses();
    expect(await plant.run(engageKill(flow, wish))).toMatchObject({ kind: "engaged", cancelled: 0 });
    await plant.pass(100);
    const ids = [idOf(await plant.admit(flow, { topic: "t" })), idOf(await plant.admit(other, { topic: "t" }))];
    const acme = idOf(await plant.admit(other, { topic: "t", org: "acme" }));
    await plant.pass(120_000);
    expect(worked).toEqual([acme]);
    for (const id of ids) expect(await plant.job(id)).toMatchObject({ state: "SCHEDULED", attempt: 0 });
    expect(await plant.run(releaseKill(other, "default", "bob"))).toMatchObject({ by: "ann" });
    await plant.pass(500); // Less than a sweep.
    expect([...worked].sort()).toEqual([...ids, acme].sort());
    expect(await auditLines(plant, flow, "kill")).toEqual(["ann engaged", "bob released"]);
  });

  test("for `*` nobody's work goes out, and nobody leases any", async () => {
    const { plant, flow, other, worked } = await twoProcesses();
    await plant.run(engageKill(flow, { ...wish, scope: "*" }));
    await plant.pass(100);
    for (const org of ["default", "acme"]) await plant.admit(other, { topic: "t", org });
    expect(await plant.run(lease(flow, leaseWish))).toEqual([]);
    expect(await plant.run(lease(other, leaseWish))).toEqual([]);
    await plant.pass(60_000);
    expect(worked).toEqual([]);
    expect(await plant.run(lease(other, leaseWish))).toEqual([]);
  });

  test("retries and steps of workflows wait as well, and are explained", async () => {
    const plant = new RunPlant();
    const { flow } = await plant.control("c1");
    let tries = 0;
    await plant.worker("w1", ["t"], async () => {
      tries += 1;
      throw new Error("once more");
    });
    await plant.apply(flow, { id: "one", steps: { a: { topic: "t" } } });
    const failing = idOf(await plant.admit(flow, { topic: "t" }));
    await plant.pass(10);
    expect((await plant.job(failing)).state).toBe("RETRYING");
    await plant.run(engageKill(flow, wish));
    const before = tries;
    const run = await plant.started(flow, "one");
    await plant.pass(60_000);
    expect(tries).toBe(before);
    for (const jobId of [failing, `${run}:a@1`]) {
      const explained = await plant.run(explain(flow, { org: "default", jobId, isForAll: false }));
      expect(explained).toMatchObject({ explanation: { wait: { reason: "killed" } } });
      const text = JSON.stringify(explained);
      expect(text).toContain("it sends money to strangers");
      expect(text).toContain("cordum kill release --scope 'default'");
    }
  });

  test("a process that was told nothing has found out after half a minute, and what it sent is stopped", async () => {
    const { plant, flow, other } = await twoProcesses();
    Object.assign(flow.world.bus, { tell: () => {} });
    const id = idOf(await plant.admit(other, { topic: "t", org: "acme" }));
    await plant.pass(10);
    await plant.worker("slow", ["s"], never);
    await plant.pass(100);
    await plant.run(engageKill(flow, wish));
    const sent = idOf(await plant.admit(other, { topic: "s" }));
    await plant.pass(10);
    expect((await plant.job(sent)).state).toBe("DISPATCHED");
    await plant.pass(40_000);
    expect((await plant.job(sent)).state).toBe("CANCELLED");
    const late = idOf(await plant.admit(other, { topic: "s" }));
    await plant.pass(5_000);
    expect((await plant.job(late)).state).toBe("SCHEDULED");
    expect((await plant.job(id)).state).toBe("SUCCEEDED");
  });
});

describe("what is with workers", () => {
  test("is cancelled at once, the workers are told, and what they say later changes nothing", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    const told: string[] = [];
    await plant.run(
      flow.world.bus.listen(CANCEL, ({ body }) => {
        if (body.kind === "job_cancel") told.push(`${body.jobId} ${body.requestedBy}: ${body.reason}`);
      }),
    );
    await plant.worker("w1", ["t"], never);
    const mine = idOf(await plant.admit(flow, { topic: "t" }));
    const others = idOf(await plant.admit(flow, { topic: "t", org: "acme" }));
    await plant.admit(flow, { topic: "far" });
    await plant.pass(100);
    const [leased] = await plant.run(lease(flow, { ...leaseWish, topics: ["far"] }));
    expect(await plant.run(engageKill(flow, wish))).toMatchObject({ kind: "engaged", cancelled: 2 });
    expect(await plant.job(mine)).toMatchObject({
      state: "CANCELLED",
      error: { message: "killed: it sends money to strangers" },
    });
    expect((await plant.job(others)).state).toBe("DISPATCHED");
    await plant.pass(100);
    expect(told).toContain(`${mine} ann: killed: it sends money to strangers`);
    const holder = { org: "*", jobId: leased?.id ?? "", leaseId: leased?.leaseId ?? "" };
    expect(await plant.run(complete(flow, holder, "done"))).toMatchObject({ kind: "lost" });
  });

  test("of all tenants, and more of them than one page has", async () => {
    const plant = new Plant();
    const { flow } = await plant.control("c1");
    await plant.worker("w1", ["t"], never, 1_000);
    for (let index = 0; index < 150; index += 1) await plant.admit(flow, { topic: "t", org: index % 2 ? "a" : "b" });
    await plant.pass(10);
    expect(await plant.run(engageKill(flow, { ...wish, scope: "*" }))).toMatchObject({ cancelled: 150 });
  });
});

test("the process that engages it dies at once: another one stops what is with workers", async () => {
  const plant = new Plant();
  const { flow } = await plant.control("c1");
  await plant.control("c2");
  let isStopped = false;
  const hang = ({ signal }: { signal: AbortSignal }) => {
    signal.addEventListener("abort", () => (isStopped = true));
    return never();
  };
  await plant.worker("w1", ["t"], hang, 10, { extendsForMs: 3_600_000 });
  const id = idOf(await plant.admit(flow, { topic: "t" }));
  const acme = idOf(await plant.admit(flow, { topic: "t", org: "acme" }));
  await plant.pass(1_000);
  plant.bench.net.onCommit = (by, change) => {
    if (by.name === "c1" && change.puts.some(({ id: key }) => key === killId("default"))) plant.crash("c1");
  };
  engageKill(flow, wish).catch(() => {}); // It never answers.
  await plant.pass(60_000);
  expect(await plant.job(id)).toMatchObject({ state: "CANCELLED", error: { message: `killed: ${wish.reason}` } });
  expect(isStopped).toBe(true);
  expect((await plant.job(acme)).state).not.toBe("CANCELLED");
});

test("engaging it twice keeps the first, and ends what is out by then; releasing it twice is fine", async () => {
  const { plant, flow, other } = await twoProcesses();
  await plant.run(engageKill(flow, wish));
  expect(await plant.run(engageKill(other, { ...wish, by: "bob" }))).toMatchObject({
    kind: "already",
    kill: { by: "ann" },
  });
  expect(await plant.run(listKills(other))).toMatchObject([{ scope: "default", by: "ann" }]);
  expect(await plant.run(releaseKill(flow, "default", "ann"))).not.toBeNull();
  expect(await plant.run(releaseKill(flow, "default", "ann"))).toBeNull();
  expect(await plant.run(listKills(other))).toEqual([]);
});

test("a look that began before it was engaged does not release it, nor does a pool that is drained", async () => {
  const { plant, flow } = await twoProcesses();
  const { store } = flow.world;
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
  const slow = refreshPools(flow);
  await plant.pass(100);
  await plant.run(engageKill(flow, wish));
  answer();
  await plant.run(slow);
  expect(flow.pools.killOf("default")).toMatchObject({ by: "ann" });
  await plant.run(setDraining(flow, "old", true, "ann"));
  expect(flow.pools.killOf("default")).not.toBeNull();
  expect([...flow.pools.draining]).toEqual(["old"]);
});
