/** What becomes of a job under a policy, as an operator sees it. */
import { expect, test } from "vitest";
import type { Setup } from "../deployments.ts";

export function jobCases(setup: () => Setup): void {
  test("an allowed job is finished, by whichever kind of worker, and either way in tells of it", async () => {
    const { doors, prefixes } = setup();
    for (const prefix of prefixes) {
      const id = await doors[0].submit(`${prefix}.echo`, { n: prefix }, { labels: { team: "blue" } });
      const job = await doors[1].ended(id, "SUCCEEDED");
      expect(job).toMatchObject({ attempt: 1, labels: { team: "blue" }, input: { n: prefix } });
      expect(job.safety).toMatchObject({ decision: "ALLOW", rule_id: "fine", reason: "nothing is wrong with it" });
      expect(JSON.stringify(job.result)).toContain(`"n":"${prefix}"`);
    }
  });

  test("a denied job is answered 403 with the rule's id and reason, and nobody ever works on it", async () => {
    const { doors, workers } = setup();
    const { status, body } = await doors[0].post("/jobs", { topic: "http.forbidden", input: 1 });
    expect([status, body.code]).toEqual([403, "denied"]);
    expect(body).toMatchObject({
      rule_id: "no-exports",
      detail: expect.stringContaining("exports are forbidden here"),
    });
    expect(await doors[1].job(body.job_id)).toMatchObject({ state: "DENIED", attempt: 0 });
    expect(workers.attempts.has(body.job_id)).toBe(false);
  });

  test("an error that says when to come again is obeyed, and the history says who chose the time", async () => {
    const { doors, prefixes } = setup();
    for (const prefix of prefixes) {
      const job = await doors[1].ended(await doors[0].submit(`${prefix}.flaky`), "SUCCEEDED");
      expect(job.attempt).toBe(3);
      const delays = job.history.filter((line: { delay_ms: number | null }) => line.delay_ms !== null);
      const asked = prefix === "demo" ? 300 : 120;
      expect(delays.map((line: Record<string, unknown>) => [line.delay_ms, line.policy])).toEqual([
        [asked, "worker"],
        [asked, "worker"],
      ]);
    }
  });

  test("what can never work is a dead letter with its payload; tried again it finishes, as the same job", async () => {
    const { doors, keys, transports, workers } = setup();
    for (const prefix of Object.keys(transports)) {
      const id = await doors[0].submit(`${prefix}.second`, { keep: "me" });
      await doors[0].ended(id, "FAILED");
      const { items } = (await doors[1].get("/dlq")).body;
      const letter = items.find((one: { job_id: string }) => one.job_id === id);
      expect(letter).toMatchObject({
        topic: `${prefix}.second`,
        error: { message: expect.stringContaining("closed") },
      });
      expect((await doors[1].get(`/dlq/${letter.id}`)).body.input).toEqual({ keep: "me" });
      const retried = await doors[1].as(keys.alice).post(`/dlq/${letter.id}/retry`);
      expect(retried).toMatchObject({ status: 200, body: { job_id: id } });
      expect(await doors[0].ended(id, "SUCCEEDED")).toMatchObject({ result: "second life" });
      expect(workers.attempts.get(id)).toBe(2);
      expect((await doors[0].get(`/dlq/${letter.id}`)).status).toBe(404);
    }
  });

  test("cancelling a job that is being worked on aborts the work, and its late end changes nothing", async () => {
    const { doors, keys, transports, workers } = setup();
    for (const prefix of Object.keys(transports)) {
      const id = await doors[0].submit(`${prefix}.hold`);
      await workers.begun(id);
      await doors[0].until(`/jobs/${id}`, ({ body }) => body.progress?.percent === 40);
      const cancelled = await doors[1].as(keys.submitter).post(`/jobs/${id}/cancel`, { reason: "not needed any more" });
      expect(cancelled).toMatchObject({ status: 200, body: { state: "CANCELLED" } });
      expect(await workers.abortOf(id)).toMatch(/cancel|lost/);
      expect((await doors[0].post(`/jobs/${id}/cancel`)).status).toBe(409);
      expect(await doors[0].job(id)).toMatchObject({ state: "CANCELLED", attempt: 1 });
    }
  });

  test("nobody serves it: it waits, says so, and starts when somebody does", async () => {
    const { doors, transports, workers } = setup();
    for (const [name, transport] of Object.entries(transports)) {
      const topic = `missing-${name}.echo`;
      const ids = await Promise.all([1, 2, 3].map((n) => doors[n % 2 === 0 ? 0 : 1].submit(topic, n)));
      for (const id of ids) await explained(setup(), id, "no_worker");
      const stop = await workers.serve(topic, transport);
      // Left to itself the topic would rest for ten minutes.
      for (const id of ids) expect((await doors[0].ended(id, "SUCCEEDED")).attempt).toBe(1);
      await stop();
    }
  });

  test("explain says at each stage what it waits for, and what unblocks it", async () => {
    const { doors, prefixes, workers } = setup();
    const [prefix = ""] = prefixes;
    const asked = await doors[0].submit(`${prefix}.ask`);
    const approval = await explained(setup(), asked, "approval");
    expect(approval.sentence).toContain("rule `ask-a-human` requires approval: a human looks at these first");
    expect(approval.unblocks[0].command).toBe(`cordum approval approve ${asked}`);

    const held = await doors[0].submit(`${prefix}.hold`);
    await workers.begun(held);
    const running = await explained(setup(), held, "running");
    expect(running.sentence).toMatch(/worker `\S+-worker` works on attempt 1/);

    const later = await doors[0].submit(`${prefix}.later`);
    const retry = await explained(setup(), later, "retry");
    expect(retry.sentence).toMatch(/the other side is closed.*requested by the worker/);

    for (const id of [asked, held, later]) {
      await doors[0].post(`/jobs/${id}/cancel`, { reason: "the test is over" });
      const ended = (await doors[1].get(`/jobs/${id}/explain`)).body;
      expect(ended).toMatchObject({ state: "CANCELLED", wait: null });
      expect(ended.sentence).toContain("the test is over");
    }
  });

  test("the same key sent through both ways in at once makes one job; with another body it is refused", async () => {
    const { doors, prefixes, workers } = setup();
    const topic = `${prefixes[0]}.echo`;
    const send = (n: number, input: unknown) =>
      doors[n % 2 === 0 ? 0 : 1].with({ "idempotency-key": "order-17" }).post("/jobs", { topic, input });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => send(n, { order: 17 })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const ids = new Set<string>(answers.map(({ body }) => body.job_id));
    expect(ids.size).toBe(1);
    expect(answers.filter(({ body }) => body.replayed === false)).toHaveLength(1);
    const [id = ""] = ids;
    await doors[0].ended(id, "SUCCEEDED");
    if (prefixes[0] !== "demo") expect(workers.attempts.get(id)).toBe(1);
    expect(await send(1, { order: 18 })).toMatchObject({ status: 422, body: { code: "idempotency_conflict" } });
  });
}

async function explained({ doors }: Setup, id: string, reason: string) {
  const { body } = await doors[1].until(`/jobs/${id}/explain`, (answer) => answer.body.wait?.reason === reason);
  return body;
}
