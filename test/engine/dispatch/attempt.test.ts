import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { retryAfter } from "../../../src/core/retry/intent.ts";
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
    expect(other).toEqual({ kind: "unusable", jobId: "j1" });
    let seen = "";
    await harness.worker("w1", ["t"], async (item) => {
      seen = (item.input as { text: string }).text.slice(0, 1);
    });
    await harness.pass(60_000);
    expect(seen).toBe("a");
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

  test("rejects a result pointer to another job", async () => {
    const harness = new Harness();
    const { engine } = await harness.control("c1");
    const result = {
      kind: "job_result",
      jobId: "j1",
      status: "succeeded",
      workerId: "w",
      resultPtr: "redis://ctx:other",
    } as const;
    const packet = { traceId: "t", senderId: "w", createdAtMs: 0, body: result };
    await harness.worker("w1", ["t"], () => new Promise(() => {}));
    await harness.admit(engine, { topic: "t", jobId: "j1" });
    await harness.run(engine.world.bus.publish({ id: "r", subject: RESULT, packet }));
    await harness.pass(1_000);
    expect((await harness.job("j1")).output).toBeNull();
    expect(await harness.run(engine.world.store.load(DEAD_LETTERS, `${RESULT}/r`))).not.toBeNull();
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
