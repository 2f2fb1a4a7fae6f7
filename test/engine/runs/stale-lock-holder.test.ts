import { expect, test } from "vitest";
import type { Payload } from "../../../src/core/model/job.ts";
import { approve, reject } from "../../../src/engine/safety/approve-job.ts";
import type { Blobs } from "../../../src/ports/blobs.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { RunHarness } from "../run-harness.ts";

const STATE = "${steps.ask.state}";

test("a holder that lost the run lock cannot change the run's blobs", async () => {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  const { engine: other } = await harness.control("c2");
  await harness.apply(engine, {
    id: "w",
    steps: {
      ask: { type: "approval", on_error: "continue" },
      made: { type: "transform", depends_on: ["ask"], input: ["${input}", STATE] },
      each: { topic: "demo.none", depends_on: ["ask"], for_each: "${[input, steps.ask.state]}" },
      work: { topic: "demo.none", depends_on: ["ask"], input: ["${input}", STATE] },
    },
  });
  const runId = await harness.started(engine, "w", { input: "x".repeat(300_000) });
  const jobId = `${runId}:ask@1`;

  // Its writes are in flight when the process is disconnected; they arrive after another process decided otherwise.
  const delayed = delayPuts(engine.world.blobs);
  Object.assign(engine.world, { blobs: delayed.blobs });
  const approving = approve(engine, { org: "default", jobId, by: "bob" }).catch((error: unknown) => error);
  await harness.pass(100);
  expect(delayed.delayedCount()).toBeGreaterThan(0);
  harness.process("c1").cut("store");
  await harness.pass(40_000);
  const request = { org: "default", jobId, by: "carol", why: "no" };
  expect(await harness.run(reject(other, request))).toMatchObject({ kind: "rejected" });
  harness.process("c1").heal("store");
  delayed.open();
  await harness.pass(10_000);
  await harness.run(approving);

  const { steps } = harness.runOf(runId);
  const { input } = await harness.job(`${runId}:work@1`);
  const payloads = [steps.made?.output, steps.each?.fan?.items, input] as readonly Payload[];
  expect(payloads.map((payload) => tailOf(harness, payload))).toEqual(payloads.map(() => '"DENIED"]'));
});

/** Blobs whose puts are delayed until `open`. */
function delayPuts(blobs: Blobs) {
  let delayedCount = 0;
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  const put: Blobs["put"] = async (...context) => {
    delayedCount += 1;
    await opened;
    return blobs.put(...context);
  };
  return { blobs: around(blobs, { put }), delayedCount: () => delayedCount, open };
}

function tailOf(harness: RunHarness, payload: Payload): string {
  if (payload.kind !== "pointer") throw new Error("payload is not stored by pointer");
  return new TextDecoder().decode(harness.sim.net.blobs.get(payload.ptr)?.bytes).slice(-9);
}
