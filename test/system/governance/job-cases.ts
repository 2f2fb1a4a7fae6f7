/** Jobs under a policy. */
import { expect, test } from "vitest";
import type { Deployment } from "../deployments.ts";

export function jobCases(deployment: () => Deployment): void {
  test("an allowed job succeeds on every kind of worker and is visible at both gateways", async () => {
    const { apis, prefixes } = deployment();
    for (const prefix of prefixes) {
      const id = await apis[0].submit(`${prefix}.echo`, { n: prefix }, { labels: { team: "blue" } });
      const job = await apis[1].ended(id, "SUCCEEDED");
      expect(job).toMatchObject({ attempt: 1, labels: { team: "blue" }, input: { n: prefix } });
      expect(job.safety).toMatchObject({ decision: "ALLOW", rule_id: "fine", reason: "nothing is wrong with it" });
      expect(JSON.stringify(job.result)).toContain(`"n":"${prefix}"`);
    }
  });

  test("a denied job returns 403 with the rule and its reason, and reaches no worker", async () => {
    const { apis, workers } = deployment();
    const { status, body } = await apis[0].post("/jobs", { topic: "http.forbidden", input: 1 });
    expect([status, body.code]).toEqual([403, "denied"]);
    expect(body).toMatchObject({
      rule_id: "no-exports",
      detail: expect.stringContaining("exports are forbidden here"),
    });
    expect(await apis[1].job(body.job_id)).toMatchObject({ state: "DENIED", attempt: 0 });
    expect(workers.attempts.has(body.job_id)).toBe(false);
  });

  test("a retry delay of the worker is used and recorded in the history", async () => {
    const { apis, prefixes } = deployment();
    for (const prefix of prefixes) {
      const job = await apis[1].ended(await apis[0].submit(`${prefix}.flaky`), "SUCCEEDED");
      expect(job.attempt).toBe(3);
      const delays = job.history.filter((line: { delay_ms: number | null }) => line.delay_ms !== null);
      const asked = prefix === "demo" ? 300 : 120;
      expect(delays.map((line: Record<string, unknown>) => [line.delay_ms, line.policy])).toEqual([
        [asked, "worker"],
        [asked, "worker"],
      ]);
    }
  });

  test("a permanent failure becomes a dead letter with its payload and succeeds as the same job after a redrive", async () => {
    const { apis, keys, transports, workers } = deployment();
    for (const prefix of Object.keys(transports)) {
      const id = await apis[0].submit(`${prefix}.second`, { keep: "me" });
      await apis[0].ended(id, "FAILED");
      const { items } = (await apis[1].get("/dlq")).body;
      const deadLetter = items.find((one: { job_id: string }) => one.job_id === id);
      expect(deadLetter).toMatchObject({
        topic: `${prefix}.second`,
        error: { message: expect.stringContaining("closed") },
      });
      expect((await apis[1].get(`/dlq/${deadLetter.id}`)).body.input).toEqual({ keep: "me" });
      const retried = await apis[1].as(keys.alice).post(`/dlq/${deadLetter.id}/retry`);
      expect(retried).toMatchObject({ status: 200, body: { job_id: id } });
      expect(await apis[0].ended(id, "SUCCEEDED")).toMatchObject({ result: "redriven" });
      expect(workers.attempts.get(id)).toBe(2);
      expect((await apis[0].get(`/dlq/${deadLetter.id}`)).status).toBe(404);
    }
  });

  test("cancelling a running job aborts the handler, and its late result has no effect", async () => {
    const { apis, keys, transports, workers } = deployment();
    for (const prefix of Object.keys(transports)) {
      const id = await apis[0].submit(`${prefix}.hold`);
      await workers.started(id);
      await apis[0].until(`/jobs/${id}`, ({ body }) => body.progress?.percent === 40);
      const cancelled = await apis[1].as(keys.submitter).post(`/jobs/${id}/cancel`, { reason: "not needed any more" });
      expect(cancelled).toMatchObject({ status: 200, body: { state: "CANCELLED" } });
      expect(await workers.abortOf(id)).toMatch(/cancel|lost/);
      expect((await apis[0].post(`/jobs/${id}/cancel`)).status).toBe(409);
      expect(await apis[0].job(id)).toMatchObject({ state: "CANCELLED", attempt: 1 });
    }
  });

  test("a job without a worker waits, explains why, and starts when a worker arrives", async () => {
    const { apis, transports, workers } = deployment();
    for (const [name, transport] of Object.entries(transports)) {
      const topic = `missing-${name}.echo`;
      const ids = await Promise.all([1, 2, 3].map((n) => apis[n % 2 === 0 ? 0 : 1].submit(topic, n)));
      for (const id of ids) await explained(deployment(), id, "no_worker");
      const stop = await workers.serve(topic, transport);
      // Without the arrival the next retry would be after ten minutes.
      for (const id of ids) expect((await apis[0].ended(id, "SUCCEEDED")).attempt).toBe(1);
      await stop();
    }
  });

  test("explain names the wait reason of each stage and what unblocks it", async () => {
    const { apis, prefixes, workers } = deployment();
    const [prefix = ""] = prefixes;
    const asked = await apis[0].submit(`${prefix}.ask`);
    const approval = await explained(deployment(), asked, "approval");
    expect(approval.sentence).toContain("rule `ask-a-human` requires approval: a human looks at these first");
    expect(approval.unblocks[0].command).toBe(`cordum approval approve ${asked}`);

    const held = await apis[0].submit(`${prefix}.hold`);
    await workers.started(held);
    const running = await explained(deployment(), held, "running");
    expect(running.sentence).toMatch(/worker `\S+-worker` started attempt 1/);

    const later = await apis[0].submit(`${prefix}.later`);
    const retry = await explained(deployment(), later, "retry");
    expect(retry.sentence).toMatch(/the other side is closed.*requested by the worker/);

    for (const id of [asked, held, later]) {
      await apis[0].post(`/jobs/${id}/cancel`, { reason: "the test is over" });
      const ended = (await apis[1].get(`/jobs/${id}/explain`)).body;
      expect(ended).toMatchObject({ state: "CANCELLED", wait: null });
      expect(ended.sentence).toContain("the test is over");
    }
  });

  test("one idempotency key at both gateways creates one job, and another body is rejected", async () => {
    const { apis, prefixes, workers } = deployment();
    const topic = `${prefixes[0]}.echo`;
    const send = (n: number, input: unknown) =>
      apis[n % 2 === 0 ? 0 : 1].with({ "idempotency-key": "order-17" }).post("/jobs", { topic, input });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => send(n, { order: 17 })));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const ids = new Set<string>(answers.map(({ body }) => body.job_id));
    expect(ids.size).toBe(1);
    expect(answers.filter(({ body }) => body.replayed === false)).toHaveLength(1);
    const [id = ""] = ids;
    await apis[0].ended(id, "SUCCEEDED");
    if (prefixes[0] !== "demo") expect(workers.attempts.get(id)).toBe(1);
    expect(await send(1, { order: 18 })).toMatchObject({ status: 422, body: { code: "idempotency_conflict" } });
  });
}

async function explained({ apis }: Deployment, id: string, reason: string) {
  const { body } = await apis[1].until(`/jobs/${id}/explain`, (answer) => answer.body.wait?.reason === reason);
  return body;
}
