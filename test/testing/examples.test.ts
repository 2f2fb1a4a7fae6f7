// Every workflow in examples/ runs on a test plane with the handlers of the demo worker.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { createTestPlane, type TestHandler } from "../../src/testing/index.ts";

const dir = fileURLToPath(new URL("../../examples/workflows/", import.meta.url));
const files = readdirSync(dir);

const RUNS: Readonly<Record<string, { readonly input: unknown; readonly output: unknown }>> = {
  "approval-first.yaml": {
    input: { what: "a deploy" },
    output: { act: { what: "a deploy", approved_by: "approver" } },
  },
  "every-step.yaml": {
    input: { customer: "Ann", region: "eu", items: [{ sku: "a-1", count: 2 }] },
    output: { greeting: "hello Ann", paid: true, places: 0 },
  },
  "fan-out.yaml": { input: { items: [1, 2, 3] }, output: { count: 3 } },
  "greet.yaml": { input: { name: "Ann" }, output: "hello Ann" },
  "nightly-triage.yaml": { input: {}, output: { tickets: 2 } },
  "ticket-triage.yaml": {
    input: { ticket: "T-1", text: "please refund order A-17", amount: 120 },
    output: { category: "refund", answers: 0 },
  },
  "three-steps.yaml": { input: { order: 7 }, output: { from_second: { from_first: { order: 7 } } } },
};

/** What the workers in examples/ticket-triage do. */
const TRIAGE: Readonly<Record<string, TestHandler>> = {
  "ticket.classify": (job) => {
    job.reportUsage({ inputTokens: 200, outputTokens: 50 });
    return { category: JSON.stringify(job.input).includes("refund") ? "refund" : "question" };
  },
  "ticket.answer": (job) => {
    job.reportUsage({ inputTokens: 200, outputTokens: 50 });
    return { text: "an answer" };
  },
  "refund.pay": (job) => ({ payment: job.jobId }),
  "refund.reverse": (job) => job.input,
  "crm.update": (job) => {
    if (JSON.stringify(job.input).includes("X-")) throw job.permanent(new Error("unknown ticket"));
    return job.input;
  },
  "crm.open_tickets": () => [
    { ticket: "N-1", text: "where is my invoice?" },
    { ticket: "N-2", text: "please refund order A-18", amount: 20 },
  ],
};

describe("example workflows", () => {
  test.each(files)("%s", async (file) => {
    const { input, output } = RUNS[file] ?? { input: {}, output: "no entry in RUNS" };
    await using plane = await createTestPlane({
      workflows: files.map((name) => ({ file: `${dir}${name}` })),
      workers: {
        "demo.echo": (job) => job.input,
        "demo.approve": (job) => job.input,
        "demo.slow": async (job) => {
          await job.sleep("10s");
          return job.input;
        },
        "demo.flaky": (job) => {
          if (job.attempt < 3) throw new Error("flaky");
          return job.input;
        },
        ...TRIAGE,
      },
    });
    const run = await plane.runs.start(file.replace(".yaml", ""), input);
    await plane.settle();
    for (const { job_id } of await plane.approvals.list()) await plane.approvals.approve(job_id);
    // Longer than each `wait` of the examples.
    await plane.advance("4d");
    const ended = await run.finished();
    expect(ended).toMatchObject(
      typeof output === "object" ? { state: "SUCCEEDED", output: expect.objectContaining(output ?? {}) } : { output },
    );
  });

  test("ticket triage: loop, events, approval, velocity limit, compensation and budget", async () => {
    await using plane = await createTestPlane({
      workflows: [{ file: `${dir}ticket-triage.yaml` }],
      policy: readFileSync(`${dir}../ticket-triage/policy.yaml`, "utf8").replace("200000", "1900"),
      workers: TRIAGE,
    });
    const start = (ticket: string, input: object, customer = "ann") =>
      plane.runs.start("ticket-triage", { ticket, text: "please refund", ...input }, { labels: { customer } });
    const approve = async () => {
      await plane.settle();
      for (const { job_id } of await plane.approvals.list()) await plane.approvals.approve(job_id);
    };

    const question = await start("Q-1", { text: "where is it?" });
    await question.event("customer.answered", { resolved: false, text: "where?" }, { correlation_key: "Q-1" });
    await plane.advance("1h");
    expect((await question.explain()).waits).toContainEqual(
      expect.objectContaining({ step_id: "reply", reason: expect.stringContaining("correlation key `Q-1`") }),
    );
    await question.event("customer.answered", { resolved: true }, { correlation_key: "other" });
    await question.event("customer.answered", { resolved: true }, { correlation_key: "Q-1" });
    expect(await question.finished()).toMatchObject({
      state: "SUCCEEDED",
      output: { category: "question", answers: 2 },
    });

    // The next day has a budget of its own. No answer of the customer within three days.
    await plane.advance("1d");
    const silent = await start("Q-2", { text: "where is it?" });
    await plane.advance("4d");
    expect(await silent.finished()).toMatchObject({ state: "SUCCEEDED", output: { answers: 1 } });

    const unknown = await start("X-1", { amount: 300 });
    await approve();
    expect(await unknown.finished()).toMatchObject({
      state: "FAILED",
      error: { message: "unknown ticket" },
      compensation: { undone: ["refund"], failed: [], left: [] },
    });

    // 300 + 250 is more than a customer gets in a day.
    const tooMuch = await start("T-2", { amount: 250 });
    expect(await tooMuch.finished()).toMatchObject({ state: "FAILED", steps: { refund: { state: "DENIED" } } });
    const other = await start("T-3", { amount: 250 }, "bob");
    await approve();
    expect(await other.finished()).toMatchObject({ state: "SUCCEEDED" });

    // The calls of today used 750 of 1,900 tokens, and each reserves 1,000.
    const last = await start("T-4", { amount: 1 }, "eve");
    await approve();
    expect(await last.finished()).toMatchObject({ state: "SUCCEEDED" });
    const exhausted = await start("T-5", { amount: 1 }, "eve");
    expect(await exhausted.finished()).toMatchObject({ state: "FAILED", error: { name: "BudgetExhausted" } });
  });

  test("the example policy decides", async () => {
    const file = fileURLToPath(new URL("../../examples/policy.yaml", import.meta.url));
    await using plane = await createTestPlane({ policy: { file } });
    const check = plane.policy.check({ topic: "table.delete", labels: { env: "prod" } });
    expect(await check).toMatchObject({ decision: "DENY", rule_id: "no-deletes-in-production" });
    const payment = { topic: "pay.out", input: { amount: 5_000, to: "x@example.org" } };
    expect(await plane.policy.check(payment)).toMatchObject({ decision: "REQUIRE_APPROVAL", rule_id: "big-payments" });
    expect(await plane.policy.check({ topic: "pay.out", tenant_id: "birch" })).toMatchObject({
      decision: "REQUIRE_APPROVAL",
    });
    expect(await plane.policy.check({ topic: "any.topic", tenant_id: "birch" })).toMatchObject({ rule_id: null });
  });
});
