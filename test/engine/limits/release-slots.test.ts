import { expect, test } from "vitest";
import { entriesOf, WINDOWS } from "../../../src/core/policy/limits/window.ts";
import { releaseSlots } from "../../../src/engine/limits/index.ts";
import { LimitsHarness } from "./limits-harness.ts";

const RATE = "  - {id: slow, match: {topics: [pay]}, decision: throttle, reason: slow down, throttle: {rate: 1/1m}}";

test("a process whose clock is behind does not give back a slot that was used", async () => {
  const harness = new LimitsHarness().publish(RATE);
  const engine = await harness.open();
  const ids = [await harness.submit(engine), await harness.submit(engine)];
  const [used, waiting] = await Promise.all(ids.map((id) => harness.job(id)));
  const slots = async () => {
    const found = await harness.run(engine.world.store.load(WINDOWS, used?.counted?.[0]?.id ?? ""));
    return found === null ? [] : entriesOf(found.value);
  };
  const clock = { ...engine.world.clock, now: () => (used?.createdMs ?? 0) - 5_000 };
  const behind = { ...engine, world: { ...engine.world, clock } };
  if (used === undefined || waiting === undefined) throw new Error("no jobs");
  releaseSlots(behind, used);
  await harness.pass(100);
  expect(await slots()).toHaveLength(2);
  releaseSlots(behind, waiting);
  await harness.pass(100);
  expect(await slots()).toHaveLength(1);
});
