import { expect, test } from "vitest";
import type { Payload } from "../../../src/core/model/job.ts";
import { approve, reject } from "../../../src/engine/safety/approve-job.ts";
import type { Blobs } from "../../../src/ports/blobs.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { RunPlant } from "../run-harness.ts";

const STATE = "${steps.ask.state}";

test("who has lost the run's lock cannot touch what the run points at", async () => {
  const plant = new RunPlant();
  const { flow } = await plant.control("c1");
  const { flow: other } = await plant.control("c2");
  await plant.apply(flow, {
    id: "w",
    steps: {
      ask: { type: "approval", on_error: "continue" },
      made: { type: "transform", depends_on: ["ask"], input: ["${input}", STATE] },
      each: { topic: "demo.none", depends_on: ["ask"], for_each: "${[input, steps.ask.state]}" },
      work: { topic: "demo.none", depends_on: ["ask"], input: ["${input}", STATE] },
    },
  });
  const runId = await plant.started(flow, "w", { input: "x".repeat(300_000) });
  const jobId = `${runId}:ask@1`;

  // Its bytes are on their way when it is cut off; they arrive when somebody else has decided otherwise.
  const late = holding(flow.world.blobs);
  Object.assign(flow.world, { blobs: late.blobs });
  const approving = approve(flow, { org: "default", jobId, by: "bob" }).catch((error: unknown) => error);
  await plant.pass(100);
  expect(late.held()).toBeGreaterThan(0);
  plant.process("c1").cut("store");
  await plant.pass(40_000);
  const wish = { org: "default", jobId, by: "carol", why: "no" };
  expect(await plant.run(reject(other, wish))).toMatchObject({ kind: "rejected" });
  plant.process("c1").heal("store");
  late.open();
  await plant.pass(10_000);
  await plant.run(approving);

  const { steps } = plant.runOf(runId);
  const { input } = await plant.job(`${runId}:work@1`);
  const kept = [steps.made?.output, steps.each?.fan?.items, input] as readonly Payload[];
  expect(kept.map((payload) => endOf(plant, payload))).toEqual(kept.map(() => '"DENIED"]'));
});

/** Keeps what is put until it is opened. */
function holding(blobs: Blobs) {
  let held = 0;
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  const put: Blobs["put"] = async (...given) => {
    held += 1;
    await opened;
    return blobs.put(...given);
  };
  return { blobs: around(blobs, { put }), held: () => held, open };
}

function endOf(plant: RunPlant, payload: Payload): string {
  if (payload.kind !== "pointer") throw new Error("it is not large");
  return new TextDecoder().decode(plant.bench.net.blobs.get(payload.ptr)?.bytes).slice(-9);
}
