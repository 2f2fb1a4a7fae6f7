import { describe, expect, test } from "vitest";
import { jobLists } from "../../../src/core/jobs/job-filter.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { permanent, retryAfter } from "../../../src/core/retry/intent.ts";
import { loadTenantJob } from "../../../src/engine/dispatch/index.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { put } from "../../../src/ports/store.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { Harness, idOf } from "../harness.ts";

const echo = async (item: { input: unknown }) => item.input;

describe("job lifecycle", () => {
  test.each(["local", "remote"] as const)("runs from submission to result, kernel %s", async (safety) => {
    const harness = new Harness();
    const { engine } = await harness.control("c1", safety);
    await harness.worker("w1", ["demo.echo"], echo);
    const id = idOf(await harness.admit(engine, { topic: "demo.echo", input: { hello: "world" } }));
    await harness.pass(1_000);
    expect(await harness.job(id)).toMatchObject({
      state: "SUCCEEDED",
      attempt: 1,
      workerId: "w1",
      output: { kind: "inline", value: { hello: "world" } },
      safety: { effect: "allow", snapshot: "s1" },
    });
  });

  test("with a local kernel, admission and dispatch take one commit and no message", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1", "local");
    let commits = 0;
    harness.sim.net.onCommit = (_, change) => {
      // The audit log is written in separate commits.
      if (change.puts.some(({ table }) => table === JOBS.name)) commits++;
      expect(change.sends).toEqual([]);
    };
    await harness.worker("w1", ["demo.echo"], () => new Promise(() => {}));
    const admitted = await harness.admit(engine, { topic: "demo.echo" });
    await harness.pass(100);
    expect(commits).toBe(1);
    expect(admitted).toMatchObject({ kind: "accepted", state: "DISPATCHED" });
  });

  test.each(["local", "remote"] as const)("a denied job ends without reaching a worker, kernel %s", async (safety) => {
    const harness = new Harness();
    const { engine } = await harness.control("c1", safety);
    const calls: string[] = [];
    await harness.worker("w1", ["danger.rm"], async (item) => calls.push(item.jobId));
    const id = idOf(await harness.admit(engine, { topic: "danger.rm" }));
    await harness.pass(5_000);
    expect(await harness.job(id)).toMatchObject({ state: "DENIED", error: { message: "deny by rule" } });
    expect(calls).toEqual([]);
  });

  test("passes large inputs and results by pointer", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const text = "x".repeat(300_000);
    await harness.worker("w1", ["demo.echo"], echo);
    const id = idOf(await harness.admit(engine, { topic: "demo.echo", input: { text } }));
    await harness.pass(1_000);
    expect(await harness.job(id)).toMatchObject({
      state: "SUCCEEDED",
      input: { kind: "pointer", sha256: /^[0-9a-f]{64}$/ as never },
      output: { kind: "pointer", sha256: /^[0-9a-f]{64}$/ as never },
    });
    // The key that the worker wrote is gone; what is left belongs to the job.
    const prefix = `cordum:payload:default/job/${id}/`;
    expect([...harness.sim.net.blobs.keys()].filter((key) => !key.startsWith(prefix))).toEqual([]);
  });

  test("rejects an input over the limit and writes nothing", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const input = "x".repeat(2 * 1024 * 1024 + 1);
    await expect(harness.admit(engine, { topic: "demo.echo", input })).rejects.toThrow(/limit is 2097152/);
    const page = await harness.run(engine.world.store.list(JOBS, { index: jobLists("default", {}), limit: 10 }));
    expect(page.items).toEqual([]);
  });

  test("removes a job from every list after its retention", async () => {
    const harness = new Harness({ retention: { jobsMs: 60_000, runsMs: 60_000, idempotencyMs: 30_000 } });
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.admit(engine, { topic: "demo.echo", idempotencyKey: "k", labels: { k: "v" } });
    await harness.pass(70_000);
    for (const filter of [{}, { topic: "demo.echo" }, { label: { key: "k", value: "v" } }]) {
      const page = await harness.run(engine.world.store.list(JOBS, { index: jobLists("default", filter), limit: 10 }));
      expect(page.items).toEqual([]);
    }
  });
});

describe("job retries", () => {
  test("retries a plain error by policy, then stores payload, reason and history in the dead letter", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const calls: number[] = [];
    await harness.worker("w1", ["demo.bad"], async (item) => {
      calls.push(item.attempt);
      throw new Error("boom", { cause: new Error("disk") });
    });
    const id = idOf(await harness.admit(engine, { topic: "demo.bad", input: 7 }));
    await harness.pass(600_000);
    expect(calls).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(await harness.job(id)).toMatchObject({ state: "FAILED", attempt: 8 });
    const deadLetter = await harness.run(engine.world.store.load(DEAD_LETTERS, id));
    expect(deadLetter?.value).toMatchObject({
      reason: "budget",
      error: { message: "boom", cause: { message: "disk" } },
    });
    expect(deadLetter?.value.source).toMatchObject({ kind: "job", input: { value: 7 }, attempt: 8 });
  });

  test("applies the retry delay that a worker requests unchanged", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const times: number[] = [];
    await harness.worker("w1", ["demo.later"], async () => {
      times.push(engine.world.clock.now());
      if (times.length < 3) throw new Error("wrapped", { cause: retryAfter(new Error("later"), 12_345) });
      return "ok";
    });
    await harness.admit(engine, { topic: "demo.later" });
    await harness.pass(60_000);
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? 0));
    for (const gap of gaps) {
      expect(gap).toBeGreaterThanOrEqual(12_345);
      expect(gap).toBeLessThan(12_345 + 50);
    }
  });

  test("L2: does not retry a permanent error", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    let calls = 0;
    await harness.worker("w1", ["demo.bad"], async () => {
      calls++;
      throw permanent(new Error("no such file"));
    });
    const id = idOf(await harness.admit(engine, { topic: "demo.bad" }));
    await harness.pass(600_000);
    expect(calls).toBe(1);
    const deadLetter = await harness.run(engine.world.store.load(DEAD_LETTERS, id));
    expect(deadLetter?.value.reason).toBe("permanent");
  });

  test("L38: retries an attempt lost with its worker after its deadline, and ends the job once", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    let calls = 0;
    await harness.worker("w1", ["demo.hang"], () => (++calls === 1 ? new Promise(() => {}) : Promise.resolve("ok")));
    const id = idOf(await harness.admit(engine, { topic: "demo.hang" }));
    await harness.pass(59_000);
    expect(calls).toBe(1);
    await harness.pass(60_000);
    expect(await harness.job(id)).toMatchObject({ state: "SUCCEEDED", attempt: 2 });
  });

  test("duplicate, late and reordered results end the job once", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    let ends = 0;
    harness.sim.net.onCommit = (_by, change) => {
      ends += change.puts.filter(
        (p) => p.table === "job" && (p.value as { state: string }).state === "SUCCEEDED",
      ).length;
    };
    await harness.worker("w1", ["demo.echo"], echo);
    const id = idOf(await harness.admit(engine, { topic: "demo.echo", input: 1 }));
    await harness.pass(1_000);
    const packet = {
      traceId: "t",
      senderId: "w2",
      createdAtMs: 0,
      body: { kind: "job_result", jobId: id, status: "failed_fatal", workerId: "w2", attempt: 1 } as const,
    };
    await harness.run(engine.world.bus.publish({ id: "again", subject: RESULT, packet }));
    await harness.pass(1_000);
    expect((await harness.job(id)).state).toBe("SUCCEEDED");
    expect(ends).toBe(1);
  });
});

describe("idempotency", () => {
  test("L21, L31: concurrent and later replays return the same job", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const raw = { topic: "demo.echo", input: { a: 1 }, idempotencyKey: "k1" };
    const racing = await Promise.all(Array.from({ length: 20 }, () => harness.admit(engine, raw)));
    expect(new Set(racing.map(idOf)).size).toBe(1);
    expect(racing.filter((answer) => answer.kind === "accepted").length).toBe(1);
    await harness.pass(1_000);
    expect(await harness.admit(engine, raw)).toMatchObject({ kind: "replayed", jobId: racing[0]?.jobId });
  });

  test("another body under the same key is a conflict; L22: keys are scoped to the tenant", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const first = await harness.admit(engine, { topic: "demo.echo", input: 1, idempotencyKey: "k" });
    expect(await harness.admit(engine, { topic: "demo.echo", input: 2, idempotencyKey: "k" })).toMatchObject({
      kind: "conflict",
    });
    const other = await harness.admit(engine, { topic: "demo.echo", input: 1, idempotencyKey: "k", org: "other" });
    expect(other).toMatchObject({ kind: "accepted" });
    expect(idOf(other)).not.toBe(idOf(first));
  });

  test("L22: accepts a job id that another tenant uses", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    for (const [org, jobId] of [
      ["a", "a~j1"],
      ["b", "b~j1"],
      ["default", "j1"],
    ] as const) {
      const request = { topic: "demo.echo", jobId: "j1", org };
      expect(await harness.admit(engine, request)).toMatchObject({ kind: "accepted", jobId, traceId: "j1" });
      expect(await harness.admit(engine, request)).toMatchObject({ kind: "replayed", jobId });
      expect(await harness.admit(engine, { ...request, input: 2 })).toMatchObject({ kind: "conflict" });
    }
  });

  test("L22: finds the jobs of other tenants that an earlier version stored under the client's id", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const submitted = await harness.admit(engine, { topic: "demo.none", jobId: "x", org: "a" });
    const { version, value } = harness.sim.net.store.load(JOBS, idOf(submitted)) ?? {};
    if (!value || version === undefined) throw new Error("no job");
    const earlier = { ...value, id: "old" };
    await harness.run(engine.commit({ org: "a", puts: [put(JOBS, "old", null, earlier)] }));
    const request = { topic: "demo.none", jobId: "old" };
    expect(await harness.admit(engine, { ...request, org: "a" })).toMatchObject({ kind: "replayed", jobId: "old" });
    expect(await harness.admit(engine, { ...request, org: "b" })).toMatchObject({ kind: "accepted", jobId: "b~old" });
    const load = (org: string) => harness.run(loadTenantJob(engine, { org, jobId: "old" }));
    expect(await load("a")).toMatchObject({ id: "old" });
    expect(await load("b")).toMatchObject({ id: "b~old" });
    expect(await load("c")).toBeNull();
  });
});

describe("unavailable safety kernel", () => {
  test("keeps the job PENDING with the time of its next check, and continues after recovery", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const { engine } = await harness.control("c1", "remote");
    await harness.worker("w1", ["demo.echo"], echo);
    const id = idOf(await harness.admit(engine, { topic: "demo.echo" }));
    await harness.pass(600_000);
    const waiting = await harness.job(id);
    expect(waiting).toMatchObject({
      state: "PENDING",
      wait: {
        retryClass: "safety_unavailable",
        reason: expect.stringMatching(/^safety unavailable: .*connection refused/),
        setBy: "full:1s:30s",
      },
    });
    expect(waiting.wait?.untilMs).toBeGreaterThanOrEqual(engine.world.clock.now());
    harness.kernel.health = "up";
    await harness.pass(31_000);
    expect((await harness.job(id)).state).toBe("SUCCEEDED");
  });

  test("L9: spreads the checks of waiting jobs after recovery", async () => {
    const harness = new Harness();
    harness.kernel.health = "refuses";
    const { engine } = await harness.control("c1", "remote");
    await Promise.all(Array.from({ length: 300 }, () => harness.admit(engine, { topic: "demo.echo" })));
    await harness.pass(300_000);
    const checkedMs: number[] = [];
    const decide = harness.kernel.decide;
    Object.assign(harness.kernel, {
      health: "up",
      decide: (request: never) => {
        checkedMs.push(engine.world.clock.now());
        return decide(request);
      },
    });
    await harness.pass(46_000); // The open time of the breaker, then the delay of each job.
    expect(checkedMs.length).toBe(300);
    const bins = new Map<number, number>();
    for (const at of checkedMs) bins.set(Math.floor(at / 1_000), (bins.get(Math.floor(at / 1_000)) ?? 0) + 1);
    expect(Math.max(...bins.values())).toBeLessThan(40); // 10 per second on average; 300 at once without jitter.
  });
});

describe("process crash", () => {
  test("L38: after the commit and before the message: another process's sweeper sends it", async () => {
    const harness = new Harness();
    const submitter = harness.engine("gateway", "remote");
    harness.sim.net.onCommit = (by) => {
      if (by.name === "gateway") harness.crash("gateway");
    };
    void harness.admit(submitter, { topic: "demo.echo", jobId: "j1" }).catch(() => {});
    await harness.pass(100);
    expect((await harness.job("j1")).state).toBe("PENDING");
    await harness.control("c2", "remote");
    await harness.worker("w1", ["demo.echo"], echo);
    await harness.pass(10_000);
    expect((await harness.job("j1")).state).toBe("SUCCEEDED");
  });

  test("after the dispatch commit and before the dispatch: the deadline triggers the next attempt", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1", "local");
    await harness.worker("w1", ["demo.echo"], echo);
    harness.sim.net.onCommit = (by) => {
      if (by.name === "c1") harness.crash("c1");
    };
    void harness.admit(engine, { topic: "demo.echo", jobId: "j1" }).catch(() => {});
    await harness.pass(100);
    expect((await harness.job("j1")).state).toBe("DISPATCHED");
    const second = harness.engine("c2");
    await harness.run(startControl(second));
    await harness.pass(100_000);
    expect(await harness.job("j1")).toMatchObject({ state: "SUCCEEDED", attempt: 2 });
  });
});
