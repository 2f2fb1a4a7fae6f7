import { describe, expect, test } from "vitest";
import { retryAfter } from "../../../../src/core/retry/intent.ts";
import { around } from "../../../../src/sim/mutants/decorators.ts";
import { startWorker } from "../../../../src/worker/worker.ts";
import { RunHarness } from "../../run-harness.ts";

const worker = (topic: string, facts: object = {}) => ({ topic, ...facts });

describe("retries of a step", () => {
  test("are limited by `max_retries` when the worker sets delay and class", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    let tries = 0;
    await harness.worker("w1", ["demo.busy"], async () => {
      tries += 1;
      throw retryAfter(new Error("busy"), 100, "store_unavailable");
    });
    await harness.apply(engine, { id: "busy", steps: { a: worker("demo.busy", { retry: { max_retries: 2 } }) } });
    const id = await harness.started(engine, "busy");
    await harness.pass(60_000);
    expect(tries).toBe(3);
    expect(harness.runOf(id)).toMatchObject({ state: "FAILED", error: { message: "busy" } });
  });

  test("are not used up by an input that cannot be fetched", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    const { world } = harness.sim.enter("w1");
    let isUnavailable = true;
    const unavailable = () => Promise.reject(Object.assign(new Error("unavailable"), { code: "STORE_UNAVAILABLE" }));
    const blobs = around(world.blobs, { get: (key: string) => (isUnavailable ? unavailable() : world.blobs.get(key)) });
    const handle = async () => "ok";
    const options = { id: "w1", topics: ["demo.echo"], concurrency: 1, handle, extendsForMs: 0 };
    await harness.run(startWorker({ ...world, blobs }, options));
    await harness.apply(engine, { id: "one", steps: { a: worker("demo.echo", { retry: { max_retries: 0 } }) } });
    const id = await harness.started(engine, "one", { input: "x".repeat(300_000) });
    await harness.pass(600_000);
    const waited = await harness.job(`${id}:a@1`);
    expect(waited.attempt).toBeGreaterThan(3);
    expect(waited.failures).toBeUndefined();
    isUnavailable = false;
    await harness.pass(600_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
  });
});
