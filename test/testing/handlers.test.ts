import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { createTestPlane, type PlaneError, permanent, retryAfter, type TestHandler } from "../../src/testing/index.ts";

describe("handlers on virtual time", () => {
  test("an error is retried, and retryAfter chooses the delay", async () => {
    const at: number[] = [];
    await using plane = await createTestPlane({
      workers: {
        "pay.charge": async ({ attempt, now }) => {
          at.push(now().getTime());
          if (attempt === 1) throw retryAfter(new Error("rate limited"), 3_600_000);
          if (attempt === 2) throw new Error("broken");
          return { charged: true };
        },
      },
    });
    const { job_id } = await plane.jobs.submit({ topic: "pay.charge", input: { amount: 5 } });
    await plane.advance("1m");
    expect(await plane.jobs.get(job_id)).toMatchObject({ state: "RETRYING", wait: { policy: "worker" } });
    expect(await plane.explain(job_id)).toMatchObject({ wait: { reason: "retry" } });
    const job = await plane.jobs.finished(job_id);
    expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 3, result: { charged: true }, input: { amount: 5 } });
    expect(job.history.map(({ event, delay_ms }) => [event, delay_ms !== null])).toEqual([
      ["failed", true],
      ["failed", true],
      ["succeeded", false],
    ]);
    expect((at[1] ?? 0) - (at[0] ?? 0)).toBeGreaterThanOrEqual(3_600_000);
  });

  test("a permanent error is a dead letter, which can be retried", async () => {
    let isFixed = false;
    await using plane = await createTestPlane({
      workers: {
        "mail.send": async () => {
          if (!isFixed) throw permanent(new Error("unknown address"));
          return "sent";
        },
      },
    });
    const { job_id } = await plane.jobs.submit({ topic: "mail.send" });
    expect(await plane.jobs.finished(job_id)).toMatchObject({ state: "FAILED", attempt: 1 });
    const [letter] = await plane.deadLetters.list();
    expect(letter).toMatchObject({ job_id, topic: "mail.send", error: { message: "unknown address" } });
    isFixed = true;
    await plane.deadLetters.retry(letter?.id ?? "");
    expect(await plane.jobs.finished(job_id)).toMatchObject({ state: "SUCCEEDED", result: "sent" });
  });

  test("a denied job is refused with its rule, and an approved one runs", async () => {
    await using plane = await createTestPlane({
      policy: `
version: "1"
default_decision: allow
rules:
  - { id: no-wipe, match: { topics: [disk.wipe] }, decision: deny, reason: never }
  - { id: big, match: { topics: ["pay.>"], when: input.amount > 100 }, decision: require_approval, reason: large }
`,
      workers: { "pay.charge": () => "paid", "disk.wipe": () => "wiped" },
    });
    const denied = await plane.jobs.submit({ topic: "disk.wipe" }).catch((error: PlaneError) => error);
    expect(denied).toMatchObject({ code: "denied", status: 403, facts: { rule_id: "no-wipe", state: "DENIED" } });
    expect(await plane.policy.check({ topic: "disk.wipe" })).toMatchObject({
      decision: "DENY",
      rule_id: "no-wipe",
      reason: "never",
    });
    expect(await plane.policy.check({ topic: "pay.charge", input: { amount: 5 } })).toMatchObject({
      decision: "ALLOW",
      rule_id: null,
    });
    const { job_id, status } = await plane.jobs.submit({ topic: "pay.charge", input: { amount: 500 } });
    expect(status).toBe("approval_required");
    await expect(plane.jobs.finished(job_id)).rejects.toMatchObject({ code: "blocked" });
    await plane.approvals.approve(job_id, { by: "alice" });
    expect(await plane.jobs.finished(job_id)).toMatchObject({ state: "SUCCEEDED", approval: { decided_by: "alice" } });
    await plane.policy.publish({ version: "2", default_decision: "deny", rules: [] });
    expect(await plane.policy.check({ topic: "pay.charge" })).toMatchObject({ decision: "DENY" });
  });

  test("virtual time stands still during real work and passes during sleep", async () => {
    const handler: TestHandler = async ({ now, sleep }) => {
      const first = now();
      const text = await readFile(new URL("../../package.json", import.meta.url), "utf8");
      const second = now();
      await sleep("20m");
      return { real: second.getTime() - first.getTime(), slept: now().getTime() - second.getTime(), text: text.length };
    };
    await using plane = await createTestPlane({ workers: { "file.read": handler } });
    const { job_id } = await plane.jobs.submit({ topic: "file.read" });
    const { result, attempt } = await plane.jobs.finished(job_id);
    expect(attempt).toBe(1);
    expect(result).toMatchObject({ real: 0, text: expect.any(Number) });
    expect((result as { slept: number }).slept).toBeCloseTo(1_200_000, -2);
  });

  test("real work that ends in another order is reported in the order of its start", async () => {
    const hash = async (delays: readonly number[]) => {
      await using plane = await createTestPlane({
        workers: { "a.b": ({ input }) => new Promise((resolve) => setTimeout(resolve, delays[input as number])) },
      });
      const jobs = await Promise.all([0, 1].map((input) => plane.jobs.submit({ topic: "a.b", input })));
      for (const { job_id } of jobs) await plane.jobs.finished(job_id);
      return plane.traceHash;
    };
    expect(await hash([15, 1])).toBe(await hash([1, 15]));
  });

  test("a handler that submits a job waits for it in virtual time", async () => {
    await using plane = await createTestPlane({
      workers: {
        "outer.do": async () => {
          const { job_id } = await plane.jobs.submit({ topic: "inner.do", input: 20 });
          return (await plane.jobs.finished(job_id)).result;
        },
        "inner.do": async ({ input, sleep }) => {
          await sleep("1s");
          return (input as number) + 1;
        },
      },
    });
    const { job_id } = await plane.jobs.submit({ topic: "outer.do" });
    expect(await plane.jobs.finished(job_id)).toMatchObject({ state: "SUCCEEDED", result: 21 });
  });

  test("sleep rejects when the job is cancelled", async () => {
    const seen: string[] = [];
    await using plane = await createTestPlane({
      workers: {
        "long.job": async ({ sleep }) => {
          await sleep("30m").catch((error: Error) => seen.push(error.message));
        },
      },
    });
    const { job_id } = await plane.jobs.submit({ topic: "long.job" });
    await plane.advance("5m");
    expect(await plane.jobs.get(job_id)).toMatchObject({ state: expect.stringMatching(/RUNNING|DISPATCHED/) });
    await plane.jobs.cancel(job_id, { reason: "enough" });
    await plane.advance("1s");
    expect(seen).toEqual([expect.stringContaining("enough")]);
  });

  test("a handler that never settles is reported with its topic and job", async () => {
    await using plane = await createTestPlane({
      workers: { "hang.up": () => new Promise(() => {}), "fine.job": () => 1 },
      limits: { handlerMs: 20 },
    });
    const { job_id } = await plane.jobs.submit({ topic: "hang.up" });
    await expect(plane.jobs.finished(job_id)).rejects.toMatchObject({
      code: "handler_hung",
      message: expect.stringMatching(new RegExp(`hang\\.up.*${job_id}.*20 ms`)),
    });
    const other = await plane.jobs.submit({ topic: "fine.job" });
    expect(await plane.jobs.finished(other.job_id)).toMatchObject({ result: 1 });
  });

  test("a topic without a handler blocks, and its job waits for a worker", async () => {
    await using plane = await createTestPlane({ workers: { "known.topic": () => 1 } });
    const { job_id } = await plane.jobs.submit({ topic: "other.topic" });
    await expect(plane.jobs.finished(job_id)).rejects.toMatchObject({
      code: "blocked",
      message: expect.stringMatching(/other\.topic|worker/),
    });
    await plane.settle();
    expect(await plane.jobs.list({ topic: "other.topic" })).toMatchObject([{ job_id, attempt: 0 }]);
  });

  test("events, jobs and virtual time are bounded", async () => {
    const source = "id: many\nsteps:\n  each: { topic: a.b, for_each: '${input.items}' }";
    const items = Array.from({ length: 30 }, (_, index) => index);
    const workers = { "a.b": () => null };
    await using few = await createTestPlane({ workflows: [source], workers, limits: { jobs: 10 } });
    const run = await few.runs.start("many", { items }).catch((error: PlaneError) => error);
    const outcome = "finished" in run ? await run.finished().catch((error: PlaneError) => error) : run;
    expect(outcome).toMatchObject({ code: "limit_reached", message: expect.stringContaining("limits.jobs") });
    await using short = await createTestPlane({
      workers: { "a.b": ({ sleep }) => sleep("30m") },
      limits: { events: 20_000, virtualMs: 86_400_000 },
    });
    await expect(short.advance("2d")).rejects.toThrow("limits.virtualMs");
    await short.jobs.submit({ topic: "a.b" });
    await expect(short.advance("23h")).rejects.toThrow("limits.events");
    await short.close();
    await expect(short.advance(1)).rejects.toMatchObject({ code: "plane_closed" });
    await expect(short.jobs.list()).rejects.toMatchObject({ code: "plane_closed" });
  });

  test("tenants do not see each other", async () => {
    await using plane = await createTestPlane({
      policy: { version: "1", default_decision: "allow", rules: [] },
      workers: { "a.b": () => 1 },
    });
    const { job_id } = await plane.jobs.submit({ topic: "a.b" }, { tenant: "acme", by: "ann" });
    expect(await plane.jobs.finished(job_id, { tenant: "acme" })).toMatchObject({
      tenant_id: "acme",
      submitted_by: "ann",
    });
    await expect(plane.jobs.get(job_id)).rejects.toMatchObject({ code: "job_not_found", status: 404 });
  });
});
