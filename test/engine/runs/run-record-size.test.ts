import { describe, expect, test } from "vitest";
import type { Payload } from "../../../src/core/model/job.ts";
import { RUN_VALUE_BYTES_MAX, RUNS } from "../../../src/core/model/run.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { startRun } from "../../../src/engine/intake/start-run.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { valueIn } from "../../../src/engine/payloads.ts";
import type { Blobs } from "../../../src/ports/blobs.ts";
import { put } from "../../../src/ports/store.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { RUN_REQUEST, RunHarness } from "../run-harness.ts";

const FAN = { id: "fan", steps: { each: { topic: "demo.x", for_each: "${input.items}" } } };
const itemsOf = (count: number) => Array.from({ length: count }, (_, index) => `item-number-${index}`);

describe("L45: bytes written by a run", () => {
  test("per child do not depend on the number of children", async () => {
    const few = await fanned(100);
    const many = await fanned(4_000);
    expect(many.recordBytesMax).toBeLessThanOrEqual(1.5 * few.recordBytesMax);
    expect(many.bytesPerChild).toBeLessThanOrEqual(1.5 * few.bytesPerChild);
  });

  test("per step do not depend on the outputs of earlier steps", async () => {
    const small = await chained(10);
    const large = await chained(100_000);
    expect(large.recordBytesMax).toBeLessThanOrEqual(1.5 * small.recordBytesMax);
    // Each value is stored as input, job input and job output, and once for the run.
    expect(large.blobBytes).toBeLessThan(3 * 100_100);
  });
});

describe("a value of some KiB", () => {
  const LARGE = { items: itemsOf(600), of: "x" };

  test("is written once, read once per process, and unchanged for steps, reruns and sub-runs", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w", ["demo.x"], async ({ input }) => input);
    await harness.apply(engine, { id: "inner", output: "${input}", steps: { a: { topic: "demo.x" } } });
    const steps = {
      a: { topic: "demo.x" },
      sub: { type: "subworkflow", workflow: "inner", depends_on: ["a"], input: "${steps.a.output}" },
      b: { topic: "demo.x", depends_on: ["sub"], input: "${steps.sub.output}" },
    };
    await harness.apply(engine, { id: "outer", output: "${steps.b.output}", steps });
    const { blobs, reads } = countReads(engine.world.blobs);
    Object.assign(engine.world, { blobs });
    const id = await harness.started(engine, "outer", { input: LARGE });
    await harness.pass(10_000);
    for (const runId of [id, (await startRerun(harness, engine, id)).runId]) {
      const { state, input, output, steps: ended } = harness.runOf(runId);
      expect(state).toBe("SUCCEEDED");
      const payloads = [input, output, ended.a?.output, ended.sub?.output, ended.b?.output] as Payload[];
      expect(payloads.map(({ kind }) => kind)).toEqual(payloads.map(() => "pointer"));
      for (const payload of payloads)
        expect(await harness.run(valueIn(engine, runId, payload))).toMatchObject({ value: LARGE });
    }
    for (const { value } of harness.sim.net.store.rows(RUNS)) {
      expect(JSON.stringify(value).length).toBeLessThan(RUN_VALUE_BYTES_MAX);
    }
    // The input is cached by the process that wrote it.
    const { input } = harness.runOf(id);
    expect(reads.get(input.kind === "pointer" ? input.ptr : "") ?? 0).toBe(0);
    expect(Math.max(...reads.values())).toBe(1);
  });

  test("is stored inline up to the limit and by pointer beyond it", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.apply(engine, {
      id: "t",
      output: "${input}",
      steps: { t: { type: "transform", input: "${input}" } },
    });
    const quotes = 2;
    for (const [bytes, kind] of [
      [RUN_VALUE_BYTES_MAX, "inline"],
      [RUN_VALUE_BYTES_MAX + 1, "pointer"],
    ] as const) {
      const id = await harness.started(engine, "t", { input: "x".repeat(bytes - quotes) });
      const { input, output, steps } = harness.runOf(id);
      expect([input.kind, output?.kind, steps.t?.output?.kind]).toEqual([kind, kind, kind]);
    }
  });

  test("stored inline by an older version can still be read", async () => {
    const harness = new RunHarness();
    const { engine } = await harness.control("c1");
    await harness.worker("w", ["demo.x"], async ({ input }) => input);
    await harness.apply(engine, { ...FAN, output: "${[size(steps.each.output), size(input.items)]}" });
    const id = await harness.started(engine, "fan", { input: { items: itemsOf(600) } });
    const found = harness.sim.net.store.load(RUNS, id)!;
    const { value } = found;
    const inline = (payload: Payload): Payload => ({ kind: "inline", value: readIn(harness, payload) });
    const fan = value.steps.each?.fan;
    const each = { ...value.steps.each!, fan: { ...fan!, items: inline(fan!.items) } };
    const old = { ...value, input: inline(value.input), steps: { each } };
    engine.runCache.forgetRun(id);
    const written = await harness.run(engine.commit({ org: "default", puts: [put(RUNS, id, found, old)] }));
    expect(written.kind).toBe("committed");
    await harness.pass(20_000);
    expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", output: { value: [600, 600] } });
  });

  // Each pass crashes the first process at a later put.
  test.each(["before a blob is written", "after a blob is written and before the commit"])(
    "a process crashes %s: another one completes the run",
    async (point) => {
      let crashes = 0;
      for (let crashPut = 1; ; crashPut++) {
        const harness = new RunHarness();
        const { engine } = await harness.control("c1");
        await harness.worker("w", ["demo.x"], async ({ input }) => input);
        const after = { topic: "demo.x", depends_on: ["each"], input: "${steps.each.output}" };
        await harness.apply(engine, { id: "fan", output: "${steps.after.output}", steps: { ...FAN.steps, after } });
        let puts = 0;
        const putOnce: Blobs["put"] = async (...context) => {
          puts += 1;
          const isFatal = puts === crashPut;
          if (isFatal && point.startsWith("before")) harness.crash("c1");
          await engineBlobs.put(...context);
          if (isFatal) harness.crash("c1");
        };
        const engineBlobs = engine.world.blobs;
        Object.assign(engine.world, { blobs: around(engineBlobs, { put: putOnce }) });
        const request = { ...RUN_REQUEST, workflowId: "fan", input: { items: itemsOf(300) }, idempotencyKey: "k" };
        void startRun(engine, request, "test").catch(() => {});
        await harness.pass(5_000);
        const { engine: second } = await harness.control("c2");
        const outcome = await harness.start(second, "fan", request);
        if (outcome.kind !== "started" && outcome.kind !== "replayed") throw new Error(outcome.kind);
        await harness.pass(300_000);
        const { state, output } = harness.runOf(outcome.runId);
        expect(state).toBe("SUCCEEDED");
        expect(readIn(harness, output)).toEqual(itemsOf(300));
        if (puts < crashPut) break;
        crashes += 1;
      }
      // The input, the list, the output of a step and the output of the run.
      expect(crashes).toBeGreaterThanOrEqual(4);
    },
  );

  test("is kept as long as its run, also after redrives", async () => {
    const retention = { jobsMs: 60_000, runsMs: 60_000, idempotencyMs: 60_000 };
    const harness = new RunHarness({ retention });
    const { engine } = await harness.control("c1");
    let isBroken = true;
    await harness.worker("w", ["demo.x"], async ({ input }) => {
      if (isBroken) throw new Error("broken");
      return (input as typeof LARGE).items.length;
    });
    const ask = { type: "approval", allow_submitter: true, depends_on: ["bad"] };
    const bad = { topic: "demo.x", retry: { max_retries: 0 }, depends_on: ["t"] };
    const t = { type: "transform", input: "${input}" };
    await harness.apply(engine, { id: "late", timeout_sec: 100, steps: { t, bad, ask } });
    const id = await harness.started(engine, "late", { input: LARGE });
    for (let redrives = 0; redrives < 4; redrives++) {
      await harness.pass(50_000);
      expect(harness.runOf(id)).toMatchObject({ state: "FAILED" });
      isBroken = redrives < 3;
      const deadLetter = { org: "default", id: `${id}:bad@1`, by: "bob" };
      expect(await harness.run(redriveDeadLetter(engine, deadLetter))).toMatchObject({ kind: "revived" });
    }
    await harness.pass(150_000);
    const { state, input, steps } = harness.runOf(id);
    expect(state).toBe("TIMEOUT");
    for (const payload of [input, steps.t?.output as Payload]) {
      expect(await harness.run(engine.world.blobs.get(payload.kind === "pointer" ? payload.ptr : ""))).not.toBeNull();
    }
  });
});

/** Runs a `for_each`; returns the largest run record and the bytes written per child. */
async function fanned(count: number) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.worker("w", ["demo.x"], async () => 1, 64);
  await harness.apply(engine, FAN);
  const written = watchRunWrites(harness);
  const id = await harness.started(engine, "fan", { input: { items: itemsOf(count) } });
  for (let n = 0; n < 100 && harness.runOf(id).state === "RUNNING"; n++) await harness.pass(5_000);
  expect(harness.runOf(id)).toMatchObject({ state: "SUCCEEDED", steps: { each: { fan: { succeeded: count } } } });
  const bytesPerChild = (written.bytes + blobBytesIn(harness)) / count;
  return { recordBytesMax: written.recordBytesMax, bytesPerChild };
}

/** Runs ten steps in a row; the first returns `bytes` bytes. */
async function chained(bytes: number) {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.worker("w", ["demo.x"], async ({ input }) => input);
  const steps: Record<string, object> = { s0: { topic: "demo.x", input: "${input}" } };
  for (let at = 1; at < 10; at++) steps[`s${at}`] = { topic: "demo.x", depends_on: [`s${at - 1}`], input: at };
  await harness.apply(engine, { id: "chain", output: "done", steps });
  const written = watchRunWrites(harness);
  const id = await harness.started(engine, "chain", { input: "x".repeat(bytes) });
  await harness.pass(10_000);
  expect(harness.runOf(id).state).toBe("SUCCEEDED");
  return { recordBytesMax: written.recordBytesMax, blobBytes: blobBytesIn(harness) };
}

/** Counts the bytes of run records written from now on. */
function watchRunWrites(harness: RunHarness) {
  const written = { bytes: 0, recordBytesMax: 0 };
  harness.sim.net.onCommit = (_, change, committed) => {
    if (committed.kind !== "committed") return;
    for (const { table, value } of change.puts) {
      if (table !== RUNS.name || value === null) continue;
      const bytes = JSON.stringify(value).length;
      written.bytes += bytes;
      written.recordBytesMax = Math.max(written.recordBytesMax, bytes);
    }
  };
  return written;
}

const blobBytesIn = ({ sim: bench }: RunHarness): number =>
  [...bench.net.blobs.values()].reduce((sum, { bytes }) => sum + bytes.length, 0);

function countReads(inner: Blobs) {
  const reads = new Map<string, number>();
  const get: Blobs["get"] = (key) => {
    reads.set(key, (reads.get(key) ?? 0) + 1);
    return inner.get(key);
  };
  return { blobs: around(inner, { get }), reads };
}

async function startRerun(harness: RunHarness, engine: Engine, runId: string) {
  const request = { org: "default", runId, fromStep: "sub", by: "bob", idempotencyKey: null };
  const outcome = await harness.run(rerun(engine, request));
  if (outcome.kind !== "started") throw new Error(outcome.kind);
  await harness.pass(10_000);
  return outcome;
}

function readIn(harness: RunHarness, payload: Payload | null): unknown {
  if (payload?.kind !== "pointer") return payload?.value;
  const blob = harness.sim.net.blobs.get(payload.ptr);
  return blob && JSON.parse(new TextDecoder().decode(blob.bytes));
}
