import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { retryAfter } from "../../../src/core/retry/intent.ts";
import { completeLeased, leaseJobs } from "../../../src/engine/dispatch/index.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { Harness, idOf } from "../harness.ts";

describe("attempts in a process with a job cache", () => {
  test("the store wins over a stale cache entry", async () => {
    const harness = new Harness();
    const { engine: first } = await harness.control("c1");
    await harness.control("c2");
    let attempts = 0;
    await harness.worker("w1", ["t"], () => {
      attempts++;
      return attempts === 1 ? new Promise(() => {}) : Promise.reject(new Error(`attempt ${attempts}`));
    });
    const id = idOf(await harness.admit(first, { topic: "t" }));
    // The first attempt is lost and the second fails. The result counts whichever process receives it.
    await harness.pass(600_000);
    const { state, history } = await harness.job(id);
    expect(state).toBe("FAILED");
    // A failure acknowledged without being counted would show up as a lost attempt a minute later.
    expect(history.map(({ event }) => event)).toEqual(["lost", ...Array.from({ length: 7 }, () => "failed")]);
  });

  test("the signal of an attempt aborts at its deadline", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const aborted: number[] = [];
    const startMs = engine.world.clock.now();
    await harness.worker("w1", ["t"], (item) => {
      item.signal.addEventListener("abort", () => aborted.push(engine.world.clock.now() - startMs));
      return new Promise(() => {});
    });
    await harness.admit(engine, { topic: "t" });
    await harness.pass(59_000);
    expect(aborted).toEqual([]);
    await harness.pass(2_000);
    expect(aborted.length).toBe(1);
  });
});

describe("isolation of jobs", () => {
  test("L22: a job id of another tenant changes neither that tenant's job nor its input", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const large = (text: string) => ({ text: text.repeat(300_000) });
    await harness.admit(engine, { topic: "t", jobId: "j1", org: "acme", input: large("a") });
    const other = await harness.admit(engine, { topic: "t", jobId: "j1", org: "evil", input: large("e") });
    expect(other).toMatchObject({ kind: "accepted", jobId: "evil~j1" });
    const seen: Record<string, string> = {};
    await harness.worker("w1", ["t"], async (item) => {
      seen[item.jobId] = (item.input as { text: string }).text.slice(0, 1);
    });
    await harness.pass(60_000);
    expect(seen).toEqual({ "acme~j1": "a", "evil~j1": "e" });
  });

  test("a repeated job id conflicts with another body and replays with the same body", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    await harness.admit(engine, { topic: "t", jobId: "j1", input: { a: 1 } });
    expect((await harness.admit(engine, { topic: "t", jobId: "j1", input: { a: 1 } })).kind).toBe("replayed");
    expect((await harness.admit(engine, { topic: "job.t", jobId: "j1", input: { a: 1 } })).kind).toBe("replayed");
    expect((await harness.admit(engine, { topic: "u", jobId: "j1", input: { a: 1 } })).kind).toBe("conflict");
    expect((await harness.admit(engine, { topic: "t", jobId: "j1", input: { a: 2 } })).kind).toBe("conflict");
  });

  test("an output over the limit fails the job without a retry", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    let handled = 0;
    await harness.worker("w1", ["t"], async () => {
      handled++;
      return "x".repeat(2 * 1024 * 1024 + 1);
    });
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    await harness.pass(600_000);
    expect(handled).toBe(1);
    expect(await harness.job(id)).toMatchObject({ state: "FAILED", error: { message: /at most 2097152/ as never } });
  });

  describe("L59: the result pointer of a third-party worker", () => {
    async function resultAt(resultPtr: string, stored: Readonly<Record<string, string>>) {
      const harness = new Harness();
      const { engine } = await harness.control("c1");
      let handled = 0;
      await harness.worker("w1", ["t"], () => {
        handled += 1;
        return new Promise(() => {});
      });
      await harness.admit(engine, { topic: "t", jobId: "j1" });
      await harness.pass(100);
      const expiresAtMs = engine.world.clock.now() + 1e9;
      for (const [key, text] of Object.entries(stored))
        harness.sim.net.blobs.set(key, { bytes: new TextEncoder().encode(text), expiresAtMs });
      const body = { kind: "job_result", jobId: "j1", status: "succeeded", workerId: "w", resultPtr } as const;
      const packet = { traceId: "t", senderId: "w", createdAtMs: 0, body };
      await harness.run(engine.world.bus.publish({ id: "r", subject: RESULT, packet }));
      await harness.pass(600_000);
      return { harness, engine, job: await harness.job("j1"), handled };
    }

    test.each([
      "redis://res:j1",
      "redis://res/j1",
      "res:j1",
      "res/j1",
      "res:j1/attempt-1",
      // Pointers are opaque: workers choose the names.
      "redis://results/j1",
      "redis://my-app.out:j1/output.json",
      "redis://artifacts/j1/2/a.bin",
    ])("%s is copied", async (ptr) => {
      const key = ptr.replace("redis://", "");
      const { harness, job } = await resultAt(ptr, { [key]: '{"done":1}' });
      expect(job).toMatchObject({ state: "SUCCEEDED", output: { kind: "pointer", bytes: 10 } });
      const { output } = job;
      const stored = output?.kind === "pointer" ? output.ptr : "";
      expect(stored).toMatch(/^cordum:payload:default\/job\/j1\/[0-9a-f]{64}$/);
      expect(new TextDecoder().decode(harness.sim.net.blobs.get(stored)?.bytes)).toBe('{"done":1}');
    });

    test.each([
      ["of another job", "redis://res:j2"],
      ["of an input", "redis://ctx:j1"],
      ["of another job behind its own", "redis://res:j1/../res:j2"],
      ["that is internal", "cordum:payload:default/job/j2/0000"],
      ["that extends its id", "redis://res:j1.x"],
      ["of another job that ends like its id", "redis://results/j2:j1"],
      ["of another job with its id behind it", "redis://results/j2/j1"],
      ["of another application", "redis://session:j2"],
      ["that names no job", "redis://j1"],
    ])("%s is refused, and the work is not repeated", async (_, ptr) => {
      const key = ptr.replace("redis://", "");
      const { job, handled } = await resultAt(ptr, { [key]: '"other"' });
      expect(job).toMatchObject({ state: "FAILED", attempt: 1, output: null, error: { name: "ResultRefused" } });
      expect(job.error?.message).toBe(`result refused: \`${key}\` is not a result of this job; use \`res:j1\``);
      expect(handled).toBe(1);
    });

    test("without a value ends the job with a reason, never as SUCCEEDED with null", async () => {
      const { harness, engine, job, handled } = await resultAt("redis://res/j1", {});
      const message = "result refused: there is no value at `res/j1`; store it before the result is published";
      expect(job).toMatchObject({ state: "FAILED", attempt: 1, error: { message } });
      expect(handled).toBe(1);
      expect(await harness.run(engine.world.store.load(DEAD_LETTERS, "j1"))).toMatchObject({
        value: { reason: "permanent" },
      });
    });
  });
});

describe("`max_artifact_bytes` of the rule", () => {
  const decide = () =>
    ({
      effect: "allow_with_constraints",
      ruleId: "small",
      reason: "",
      snapshot: "s",
      constraints: { budgets: { maxArtifactBytes: 100 } },
    }) as const;
  const refusal = (bytes: number) => ({
    state: "FAILED",
    attempt: 1,
    output: null,
    error: {
      name: "ResultRefused",
      message: `result refused: it has ${bytes} bytes; \`max_artifact_bytes\` of rule \`small\` is 100`,
    },
  });

  test.each([
    ["inline", 200],
    ["by pointer", 300_000],
  ])("ends a job whose result is larger, %s", async (_, length) => {
    const harness = new Harness();
    Object.assign(harness.kernel, { decide });
    const { engine } = await harness.control("c1");
    let handled = 0;
    await harness.worker("w1", ["t"], async ({ input }) => {
      handled += 1;
      return "x".repeat(Number(input));
    });
    const fits = idOf(await harness.admit(engine, { topic: "t", input: 98 }));
    const id = idOf(await harness.admit(engine, { topic: "t", input: length }));
    await harness.pass(600_000);
    expect(await harness.job(fits)).toMatchObject({ state: "SUCCEEDED" });
    expect(await harness.job(id)).toMatchObject(refusal(length + 2));
    expect(handled).toBe(2);
    expect(harness.sim.net.blobs.size).toBe(0);
  });

  test("counts the artifacts that the worker stored for the job", async () => {
    const harness = new Harness();
    Object.assign(harness.kernel, { decide });
    const { engine } = await harness.control("c1");
    await harness.worker("w1", ["t"], () => new Promise(() => {}));
    const expiresAtMs = engine.world.clock.now() + 1e9;
    const ended = async (jobId: string, artifactPtrs: readonly string[]) => {
      await harness.admit(engine, { topic: "t", jobId });
      await harness.pass(100);
      const body = { kind: "job_result", jobId, status: "succeeded", workerId: "w", output: 1, artifactPtrs } as const;
      const packet = { traceId: "t", senderId: "w", createdAtMs: 0, body };
      await harness.run(engine.world.bus.publish({ id: jobId, subject: RESULT, packet }));
      await harness.pass(1_000);
      return harness.job(jobId);
    };
    for (const key of ["res:a/one", "res:a/two", "res:b/one"])
      harness.sim.net.blobs.set(key, { bytes: new Uint8Array(60), expiresAtMs });
    expect(await ended("a", ["redis://res:a/one", "redis://res:a/two"])).toMatchObject(refusal(120));
    const others = ["redis://res:b/one", "redis://res:a/one", "s3://bucket/large", "redis://res:a/two"];
    expect(await ended("b", others)).toMatchObject({ state: "SUCCEEDED" });
  });

  test("ends a leased job whose result is larger", async () => {
    const harness = new Harness();
    Object.assign(harness.kernel, { decide });
    const { engine } = await harness.control("c1");
    const id = idOf(await harness.admit(engine, { topic: "t" }));
    const signal = new AbortController().signal;
    const request = { org: "default", workerId: "h", topics: ["t"], max: 1, waitMs: 10_000, signal };
    const [job] = await harness.run(leaseJobs(engine, request));
    const holder = { org: "default", jobId: id, leaseId: job?.leaseId ?? "" };
    expect(await harness.run(completeLeased(engine, holder, "x".repeat(99)))).toMatchObject({ kind: "held" });
    expect(await harness.job(id)).toMatchObject(refusal(101));
  });
});

test("L41: jobs for slow workers wait in the backlog and lose no attempt", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const slow = () => new Promise((resolve) => engine.world.clock.after(20_000, () => resolve("ok")));
  await harness.worker("w1", ["t"], slow, 1);
  await harness.worker("w2", ["t"], slow, 1);
  const ids: string[] = [];
  for (let index = 0; index < 20; index++) ids.push(idOf(await harness.admit(engine, { topic: "t" })));
  await harness.pass(1_200_000);
  for (const id of ids) {
    const { state, history } = await harness.job(id);
    expect(state).toBe("SUCCEEDED");
    expect(history.filter(({ event }) => event === "lost")).toEqual([]);
  }
});

test("L43: a long retry delay survives a crash of the process that set it", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const times: number[] = [];
  await harness.worker("w1", ["t"], async () => {
    times.push(engine.world.clock.now());
    if (times.length === 1) throw retryAfter(new Error("later"), 600_000);
  });
  await harness.admit(engine, { topic: "t" });
  await harness.pass(1_000);
  harness.crash("c1");
  await harness.control("c2");
  await harness.pass(700_000);
  const [first = 0, second = 0] = times;
  expect(second - first).toBeGreaterThanOrEqual(600_000);
  expect(second - first).toBeLessThan(600_100);
});

test("L5: short job retries run when due, not at the next sweep", async () => {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const gaps: number[] = [];
  const failedAt = new Map<string, number>();
  await harness.worker(
    "w1",
    ["t"],
    async (item) => {
      const now = engine.world.clock.now();
      const failed = failedAt.get(item.jobId);
      if (failed !== undefined) return gaps.push(now - failed);
      failedAt.set(item.jobId, now);
      throw retryAfter(new Error("busy"), 500);
    },
    1_000,
  );
  for (let index = 0; index < 50; index++) {
    await harness.admit(engine, { topic: "t" });
    await harness.pass(37);
  }
  await harness.pass(5_000);
  expect(gaps.length).toBe(50);
  expect(Math.max(...gaps)).toBeLessThan(550);
});

test("the baseline profile runs the same engine with the baseline delays", async () => {
  const { baselineSettings } = await import("../../../src/config/config.ts");
  expect(baselineSettings().bus.parkAfterMs).toBeNull();
  const harness = new Harness(baselineSettings());
  harness.kernel.health = "refuses";
  const { engine } = await harness.control("c1", "remote");
  const id = idOf(await harness.admit(engine, { topic: "demo.echo" }));
  await harness.pass(1_000);
  expect((await harness.job(id)).wait?.setBy).toBe("fixed:5s");
  expect(defaultSettings().bus.parkAfterMs).toBe(2_000);
});
