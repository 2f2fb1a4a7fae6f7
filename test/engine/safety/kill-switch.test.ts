// L35: the kill switch stops all work of its scope.

import { describe, expect, test } from "vitest";
import { killId, POOLS } from "../../../src/core/model/kill-switch.ts";
import { completeLeased } from "../../../src/engine/dispatch/job-lease.ts";
import { leaseJobs } from "../../../src/engine/dispatch/lease-jobs.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { explain } from "../../../src/engine/observe/explain-job.ts";
import { engageKill, listKills, releaseKill } from "../../../src/engine/safety/kill-switch.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { refreshPools, setDraining } from "../../../src/engine/workers/worker-pools.ts";
import { CANCEL } from "../../../src/protocol/subjects.ts";
import { auditLines } from "../audit/audit-lines.ts";
import { Harness, idOf } from "../harness.ts";
import { RunHarness } from "../run-harness.ts";

const request = { scope: "default", reason: "it sends money to strangers", by: "ann" };
const leaseRequest = {
  org: "*",
  workerId: "h1",
  topics: ["t"],
  max: 10,
  waitMs: 0,
  signal: new AbortController().signal,
};
const never = () => new Promise<never>(() => {});

async function twoProcesses(): Promise<{ harness: Harness; engine: Engine; other: Engine; ran: string[] }> {
  const harness = new Harness();
  const [{ engine }, { engine: other }] = [await harness.control("c1"), await harness.control("c2")];
  const ran: string[] = [];
  await harness.worker("w1", ["t"], async ({ jobId }) => ran.push(jobId), 100);
  await harness.pass(100);
  return { harness, engine, other, ran };
}

describe("an engaged kill switch", () => {
  test("stops dispatch of the tenant in every process until it is released, and no other tenant's", async () => {
    const { harness, engine, other, ran } = await twoProcesses();
    expect(await harness.run(engageKill(engine, request))).toMatchObject({ kind: "engaged", cancelled: 0 });
    await harness.pass(100);
    const ids = [idOf(await harness.admit(engine, { topic: "t" })), idOf(await harness.admit(other, { topic: "t" }))];
    const acme = idOf(await harness.admit(other, { topic: "t", org: "acme" }));
    await harness.pass(120_000);
    expect(ran).toEqual([acme]);
    for (const id of ids) expect(await harness.job(id)).toMatchObject({ state: "SCHEDULED", attempt: 0 });
    expect(await harness.run(releaseKill(other, "default", "bob"))).toMatchObject({ by: "ann" });
    await harness.pass(500); // Less than a sweep interval.
    expect([...ran].sort()).toEqual([...ids, acme].sort());
    expect(await auditLines(harness, engine, "kill")).toEqual(["ann engaged", "bob released"]);
  });

  test("holds in a process that has not read it since its start", async () => {
    const { harness, engine, ran } = await twoProcesses();
    await harness.run(engageKill(engine, request));
    await harness.pass(100);
    const started = harness.engine("c3");
    const { store } = started.world;
    const list = store.list.bind(store);
    let isReadable = false;
    const listOrFail: typeof store.list = (collection, query) =>
      collection.name !== POOLS.name || isReadable ? list(collection, query) : Promise.reject(new Error("no answer"));
    Object.assign(store, { list: listOrFail });
    await harness.run(startControl(started));
    await harness.admit(started, { topic: "t" });
    const acme = idOf(await harness.admit(started, { topic: "t", org: "acme" }));
    for (const name of ["c1", "c2"]) harness.crash(name);
    await harness.pass(10_000);
    expect(ran).toEqual([]);
    isReadable = true;
    await harness.pass(1_000);
    expect(ran).toEqual([acme]);
  });

  test("with scope `*` stops dispatch and leases of every tenant", async () => {
    const { harness, engine, other, ran } = await twoProcesses();
    await harness.run(engageKill(engine, { ...request, scope: "*" }));
    await harness.pass(100);
    for (const org of ["default", "acme"]) await harness.admit(other, { topic: "t", org });
    expect(await harness.run(leaseJobs(engine, leaseRequest))).toEqual([]);
    expect(await harness.run(leaseJobs(other, leaseRequest))).toEqual([]);
    await harness.pass(60_000);
    expect(ran).toEqual([]);
    expect(await harness.run(leaseJobs(other, leaseRequest))).toEqual([]);
  });

  test("holds retries and workflow steps, and is explained", async () => {
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

  test("is found within half a minute without a broadcast, and dispatched jobs are cancelled", async () => {
    const { harness, engine, other } = await twoProcesses();
    Object.assign(engine.world.bus, { broadcast: () => {} });
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

describe("running jobs", () => {
  test("are cancelled at once; their workers are notified and late results are lost", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const cancels: string[] = [];
    await harness.run(
      engine.world.bus.subscribe(CANCEL, ({ body }) => {
        if (body.kind === "job_cancel") cancels.push(`${body.jobId} ${body.requestedBy}: ${body.reason}`);
      }),
    );
    await harness.worker("w1", ["t"], never);
    const own = idOf(await harness.admit(engine, { topic: "t" }));
    const foreign = idOf(await harness.admit(engine, { topic: "t", org: "acme" }));
    await harness.admit(engine, { topic: "far" });
    await harness.pass(100);
    const [leased] = await harness.run(leaseJobs(engine, { ...leaseRequest, topics: ["far"] }));
    expect(await harness.run(engageKill(engine, request))).toMatchObject({ kind: "engaged", cancelled: 2 });
    expect(await harness.job(own)).toMatchObject({
      state: "CANCELLED",
      error: { message: "killed: it sends money to strangers" },
    });
    expect((await harness.job(foreign)).state).toBe("DISPATCHED");
    await harness.pass(100);
    expect(cancels).toContain(`${own} cordum/ann: killed: it sends money to strangers`);
    const leaseRef = { org: "*", jobId: leased?.id ?? "", leaseId: leased?.leaseId ?? "" };
    expect(await harness.run(completeLeased(engine, leaseRef, "done"))).toMatchObject({ kind: "lost" });
  });

  test("of all tenants are cancelled, over more than one page", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["t"], never, 1_000);
    for (let index = 0; index < 150; index += 1)
      await harness.admit(engine, { topic: "t", org: index % 2 ? "a" : "b" });
    await harness.pass(10);
    expect(await harness.run(engageKill(engine, { ...request, scope: "*" }))).toMatchObject({ cancelled: 150 });
  });
});

test("another process cancels running jobs when the engaging process crashes", async () => {
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

test("engaging it twice keeps the first; releasing it twice succeeds", async () => {
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

test("a concurrent refresh or a pool change does not release it", async () => {
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
