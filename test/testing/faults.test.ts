import { describe, expect, test } from "vitest";
import { createTestPlane, type TestPlaneOptions } from "../../src/testing/index.ts";

const ORDER = `
id: order
timeout_sec: 864000
steps:
  reserve: { topic: stock.reserve, for_each: "\${input.items}", input: { sku: "\${item}" } }
  ask: { type: approval, reason: pay, depends_on: [reserve] }
  cool_off: { type: delay, delay_sec: 86400, depends_on: [ask] }
  pay: { topic: card.charge, depends_on: [cool_off], input: { by: "\${steps.ask.output.approved_by}" } }
  receipt: { type: subworkflow, workflow: receipt, depends_on: [pay], input: { id: "\${steps.pay.output.id}" } }
output: { reserved: "\${steps.reserve.output}", receipt: "\${steps.receipt.output}" }
`;
const RECEIPT = `
id: receipt
steps:
  send: { topic: mail.send }
output: \${steps.send.output}
`;

/** The history of one order under faults. */
async function order(options: TestPlaneOptions) {
  await using plane = await createTestPlane({
    workflows: [ORDER, RECEIPT],
    workers: {
      "stock.reserve": async ({ input, sleep }) => {
        await sleep(200);
        return (input as { sku: string }).sku;
      },
      "card.charge": async ({ input, attempt, retryAfter }) => {
        if (attempt === 1) throw retryAfter(new Error("busy"), "5s");
        return { id: `paid by ${(input as { by: string }).by}` };
      },
      "mail.send": ({ input }) => `receipt for ${(input as { id: string }).id}`,
    },
    ...options,
  });
  const run = await plane.runs.start("order", { items: ["a", "b", "c"] });
  await plane.settle();
  const [asked] = await plane.approvals.list();
  await plane.approvals.approve(asked?.job_id ?? "", { by: "alice" });
  const { state, output } = await run.finished();
  const timeline = await run.timeline();
  return { state, output, timeline, hash: plane.traceHash, ...plane.stats };
}

const OUTPUT = { reserved: ["a", "b", "c"], receipt: "receipt for paid by alice" };

describe("faults", () => {
  test("twenty swarms of faults end like no faults", async () => {
    const seeds = Array.from({ length: 20 }, (_, index) => index + 1);
    let crashes = 0;
    for (const seed of seeds) {
      const ended = await order({ seed, faults: "swarm" });
      expect({ seed, state: ended.state, output: ended.output }).toEqual({ seed, state: "SUCCEEDED", output: OUTPUT });
      crashes += ended.crashes;
    }
    expect(crashes).toBeGreaterThan(20);
    expect(await order({ seed: 1 })).toMatchObject({ state: "SUCCEEDED", output: OUTPUT, crashes: 0 });
  }, 120_000);

  test.each(["none", "lite", "swarm"] as const)(
    "equal seeds give equal histories with faults %s",
    async (faults) => {
      const [first, second, other] = [
        await order({ seed: 7, faults }),
        await order({ seed: 7, faults }),
        await order({ seed: 8, faults }),
      ];
      expect(second).toEqual(first);
      expect(other.hash).not.toBe(first.hash);
    },
    60_000,
  );
});
