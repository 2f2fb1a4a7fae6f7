import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { SLOT_WAITS_GROUP } from "../../../src/core/model/job.ts";
import { isRunFinal, RUNS } from "../../../src/core/model/run.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import { cancel } from "../../../src/engine/dispatch/cancel-job.ts";
import type { Flow } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { startRun } from "../../../src/engine/intake/start-run.ts";
import { recountSlots } from "../../../src/engine/maintenance/recount-slots.ts";
import { retryLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun, pauseRun } from "../../../src/engine/runs/control-run.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { type RunPlant, WISH } from "../run-harness.ts";
import { ASK, by, delay, INNER, LATER, OUTER, openSlots, sub, waits } from "../slots-scene.ts";

describe("who waits for a slot comes before who asks anew", () => {
  test("however often others ask: a sub-workflow is let in with the first slot that comes free", async () => {
    const { plant, flow } = await openSlots(3, [INNER, LATER]);
    await plant.apply(flow, { id: "short", steps: { a: delay(2) } });
    const id = await plant.started(flow, "later");
    let started = 0;
    const { timeline } = plant.bench.net;
    const client = (): void => {
      const again = () => timeline.post(50, client);
      startRun(flow, { ...WISH, workflowId: "short" }, "test").then((outcome) => {
        if (outcome.kind === "started") started += 1;
        again();
      }, again);
    };
    for (let at = 0; at < 10; at++) timeline.post(at * 3, client);
    await plant.pass(10_000);
    expect(plant.runOf(id).state).toBe("SUCCEEDED");
    // The others were served as well, before and after.
    expect(started).toBeGreaterThan(4);
  });

  test("starts, reruns and second lives are told so, with what is free; keys that were used before are answered", async () => {
    const { plant, flow } = await openSlots(2, [ASK, OUTER, INNER]);
    await plant.apply(flow, { id: "bad", steps: { sub: sub("nowhere") } });
    const bad = await plant.started(flow, "bad");
    await plant.pass(1_000);
    const [letter] = [...plant.bench.net.store.rows(DEAD_LETTERS)];
    const first = await plant.started(flow, "ask", { idempotencyKey: "k" });
    const outer = await plant.started(flow, "outer");
    await plant.pass(1_000);
    expect(await plant.start(flow, "ask")).toEqual({ kind: "full", current: 2, limit: 2 });
    // Nobody lives to give the slot to the step that waits for it.
    const mute = { ...flow, desk: around(flow.desk, { drainOnce: () => undefined }) };
    await plant.run(cancelRun(mute, by(first)));
    const refused = { kind: "full", current: 1, limit: 2, waiting: 1 };
    expect(await plant.start(flow, "ask")).toEqual(refused);
    const again = { org: "default", runId: first, fromStep: "ask", by: "bob", idempotencyKey: null };
    expect(await plant.run(rerun(flow, again))).toEqual(refused);
    const retried = retryLetter(flow, { org: "default", id: letter?.id ?? "", by: "bob" });
    expect(await plant.run(retried)).toEqual(refused);
    expect(await plant.start(flow, "ask", { idempotencyKey: "k" })).toMatchObject({ kind: "replayed", runId: first });
    expect(await plant.start(flow, "ask", { idempotencyKey: "k", input: 2 })).toMatchObject({ kind: "conflict" });
    // By its own time, then.
    await plant.pass(40_000);
    expect(plant.runOf(outer).state).toBe("SUCCEEDED");
    expect(await plant.start(flow, "ask")).toMatchObject({ kind: "started" });
    expect(plant.runOf(bad).state).toBe("FAILED");
  });

  test("the polled gate lets nobody pass them either", async () => {
    const { admission } = defaultSettings();
    const { plant, flow } = await openSlots(2, [ASK, OUTER, INNER], {
      admission: { ...admission, strategy: "polled" },
    });
    const first = await plant.started(flow, "ask");
    await plant.started(flow, "outer");
    await plant.pass(1_000);
    await plant.run(cancelRun({ ...flow, desk: around(flow.desk, { drainOnce: () => undefined }) }, by(first)));
    expect(await plant.start(flow, "ask")).toEqual({ kind: "full", current: 1, limit: 2, waiting: 1 });
  });

  test("the end of a run wakes them at once, the oldest first", async () => {
    // By themselves they would ask once in half a minute.
    const { retry } = defaultSettings();
    const throttled = { ...retry.throttled, policy: parsePolicy("fixed:1h") };
    const { plant, flow } = await openSlots(4, [ASK, LATER], { retry: { ...retry, throttled } });
    await plant.apply(flow, { ...ASK, id: "inner" });
    const asks = [await plant.started(flow, "ask"), await plant.started(flow, "ask")];
    const outers: string[] = [];
    for (let at = 0; at < 2; at++) {
      outers.push(await plant.started(flow, "later"));
      await plant.pass(20);
    }
    await plant.pass(2_000);
    const states = () => Promise.all(outers.map(async (id) => (await plant.job(`${id}:sub@1`)).state));
    expect(waits(plant)).toBe(2);
    await plant.run(cancelRun(flow, by(asks[0] ?? "")));
    await plant.pass(200);
    expect(await states()).toEqual(["RUNNING", "PENDING"]);
    await plant.run(cancelRun(flow, by(asks[1] ?? "")));
    await plant.pass(200);
    expect(await states()).toEqual(["RUNNING", "RUNNING"]);
    expect(waits(plant)).toBe(0);
  });

  test("ten starts at once at a limit of 2 are two and eight, and so again when nobody waits any more", async () => {
    const { plant, flow } = await openSlots(2, [ASK, INNER, OUTER]);
    const tally = async () => {
      const starts = Array.from({ length: 10 }, () => startRun(flow, { ...WISH, workflowId: "ask" }, "test"));
      const kinds = (await plant.run(Promise.all(starts))).map(({ kind }) => kind);
      return [kinds.filter((kind) => kind === "started").length, kinds.filter((kind) => kind === "full").length];
    };
    expect(await tally()).toEqual([2, 8]);
    for (const { id } of openRuns(plant)) await plant.run(cancelRun(flow, by(id)));
    const outer = await plant.started(flow, "outer");
    await plant.pass(5_000);
    expect(plant.runOf(outer).state).toBe("SUCCEEDED");
    expect(await tally()).toEqual([2, 8]);
  });
});

describe("nobody waits in the line who is not there any more", () => {
  const ends: Readonly<Record<string, (plant: RunPlant, flow: Flow, outer: string) => Promise<unknown>>> = {
    "its job is cancelled": (plant, flow, outer) =>
      plant.run(cancel(flow, { org: "default", jobId: `${outer}:sub@1`, by: "bob", why: "no" })),
    "its run is cancelled": (plant, flow, outer) => plant.run(cancelRun(flow, by(outer))),
    "its time is over": (plant) => plant.pass(60_000),
    "its run is paused": async (plant, flow, outer) => {
      await plant.run(pauseRun(flow, by(outer)));
      await plant.pass(40_000);
    },
  };

  test.each(Object.keys(ends))("%s", async (how) => {
    const { plant, flow } = await openSlots(2, [ASK, INNER]);
    await plant.apply(flow, { id: "outer", steps: { sub: sub("inner", { timeout_sec: 50 }) } });
    const first = await plant.started(flow, "ask");
    const outer = await plant.started(flow, "outer");
    await plant.pass(2_000);
    expect(waits(plant)).toBe(1);
    await ends[how]?.(plant, flow, outer);
    expect(waits(plant)).toBe(0);
    await plant.run(cancelRun(flow, by(first)));
    expect(await plant.start(flow, "ask")).toMatchObject({ kind: "started" });
  });

  test("a second life begins behind the others, and leaves the line like the first", async () => {
    const { plant, flow } = await openSlots(2, [ASK, INNER]);
    await plant.apply(flow, { id: "outer", steps: { sub: sub("inner", { timeout_sec: 20 }) } });
    const first = await plant.started(flow, "ask");
    const outer = await plant.started(flow, "outer");
    await plant.pass(30_000);
    expect(plant.runOf(outer).state).toBe("FAILED");
    const [letter] = [...plant.bench.net.store.rows(DEAD_LETTERS)];
    const revived = retryLetter(flow, { org: "default", id: letter?.id ?? "", by: "bob" });
    expect(await plant.run(revived)).toMatchObject({ kind: "revived", state: "PENDING" });
    await plant.pass(2_000);
    expect(waits(plant)).toBe(1);
    await plant.run(cancelRun(flow, by(first)));
    await plant.pass(5_000);
    expect(plant.runOf(outer).state).toBe("SUCCEEDED");
    expect(waits(plant)).toBe(0);
  });

  test("what cannot begin for another reason keeps nobody waiting", async () => {
    const { plant, flow } = await openSlots(2, [ASK, INNER, OUTER]);
    const first = await plant.started(flow, "ask");
    const outer = await plant.started(flow, "outer");
    await plant.pass(2_000);
    // What is written of its workflow cannot be read by anybody.
    const { net } = plant.bench;
    const load = net.store.load.bind(net.store);
    net.store.load = (table, id) => {
      if (table.name === RUNS.name && id === outer) throw new Error("unreadable");
      return load(table, id);
    };
    await plant.run(cancelRun(flow, by(first)));
    await plant.pass(40_000);
    expect(waits(plant)).toBe(0);
    expect(await plant.start(flow, "ask")).toMatchObject({ kind: "started" });
  });

  test("what was counted wrong is counted anew", async () => {
    const { plant, flow } = await openSlots(2, [ASK]);
    const leak = { lists: [], queue: null, counters: [{ group: SLOT_WAITS_GROUP, name: "default" }], dueMs: null };
    const nowhere = { lists: [], queue: null, counters: [], dueMs: null };
    const put = { table: "leak", id: "1", value: {}, expect: 0, from: nowhere, to: leak };
    plant.bench.net.store.commit({ org: "default", atMs: 0, puts: [put], guards: [], sends: [], watch: [] });
    expect(await plant.start(flow, "ask")).toMatchObject({ kind: "full", waiting: 1 });
    await plant.run(recountSlots(flow));
    expect(await plant.start(flow, "ask")).toMatchObject({ kind: "started" });
  });
});

const openRuns = (plant: RunPlant) =>
  [...plant.bench.net.store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state));
