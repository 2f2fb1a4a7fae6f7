// Every workflow in examples/ runs on a test plane with the handlers of the demo worker.
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { createTestPlane } from "../../src/testing/index.ts";

const dir = fileURLToPath(new URL("../../examples/workflows/", import.meta.url));
const files = readdirSync(dir);

const RUNS: Readonly<Record<string, { readonly input: unknown; readonly output: unknown }>> = {
  "approval-first.yaml": {
    input: { what: "a deploy" },
    output: { act: { what: "a deploy", approved_by: "approver" } },
  },
  "every-step.yaml": {
    input: { customer: "Ann", region: "eu", items: [{ sku: "a-1", count: 2 }] },
    output: { greeting: "hello Ann", paid: true },
  },
  "fan-out.yaml": { input: { items: [1, 2, 3] }, output: { count: 3 } },
  "greet.yaml": { input: { name: "Ann" }, output: "hello Ann" },
  "ticket-triage.yaml": {
    input: { ticket: "T-1", text: "please refund order A-17", amount: 120 },
    output: { category: "refund" },
  },
  "three-steps.yaml": { input: { order: 7 }, output: { from_second: { from_first: { order: 7 } } } },
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
      },
    });
    const run = await plane.runs.start(file.replace(".yaml", ""), input);
    await plane.settle();
    for (const { job_id } of await plane.approvals.list()) await plane.approvals.approve(job_id);
    const ended = await run.finished();
    expect(ended).toMatchObject(
      typeof output === "object" ? { state: "SUCCEEDED", output: expect.objectContaining(output ?? {}) } : { output },
    );
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
