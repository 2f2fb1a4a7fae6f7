import { describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { DEAD_LETTERS } from "../../../src/core/model/dead-letter.ts";
import { SLOT_WAITS_GROUP } from "../../../src/core/model/job.ts";
import { isRunFinal, RUNS } from "../../../src/core/model/run.ts";
import { parsePolicy } from "../../../src/core/retry/policies.ts";
import { cancelOwnJob } from "../../../src/engine/dispatch/cancel-job.ts";
import { composeEngine, type Engine } from "../../../src/engine/engine.ts";
import { rerun } from "../../../src/engine/intake/rerun-run.ts";
import { startRun } from "../../../src/engine/intake/start-run.ts";
import { recountSlots } from "../../../src/engine/maintenance/recount-slots.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun, pauseRun } from "../../../src/engine/runs/control-run.ts";
import { around } from "../../../src/sim/mutants/decorators.ts";
import { RUN_REQUEST, type RunHarness } from "../run-harness.ts";
import {
  APPROVAL,
  cancelRequest,
  delay,
  INNER,
  LATER,
  OUTER,
  openWithRunLimit,
  slotWaits,
  sub,
} from "../slots-scenario.ts";

describe("queued steps take run slots before new runs", () => {
  test("a sub-workflow takes the first free slot despite many concurrent starts", async () => {
    const { harness, engine } = await openWithRunLimit(3, [INNER, LATER]);
    await harness.apply(engine, { id: "short", steps: { a: delay(2) } });
    const id = await harness.started(engine, "later");
    let started = 0;
    const { timeline } = harness.sim.net;
    const client = (): void => {
      const again = () => timeline.post(50, client);
      startRun(engine, { ...RUN_REQUEST, workflowId: "short" }, "test").then((outcome) => {
        if (outcome.kind === "started") started += 1;
        again();
      }, again);
    };
    for (let at = 0; at < 10; at++) timeline.post(at * 3, client);
    await harness.pass(10_000);
    expect(harness.runOf(id).state).toBe("SUCCEEDED");
    // The other starts were served as well.
    expect(started).toBeGreaterThan(4);
  });

  test("starts, reruns and redrives report the free slots; known keys are still answered", async () => {
    const { harness, engine } = await openWithRunLimit(2, [APPROVAL, OUTER, INNER]);
    await harness.apply(engine, { id: "bad", steps: { sub: sub("nowhere") } });
    const bad = await harness.started(engine, "bad");
    await harness.pass(1_000);
    const [deadLetter] = [...harness.sim.net.store.rows(DEAD_LETTERS)];
    const first = await harness.started(engine, "ask", { idempotencyKey: "k" });
    const outer = await harness.started(engine, "outer");
    await harness.pass(1_000);
    expect(await harness.start(engine, "ask")).toEqual({ kind: "full", current: 2, limit: 2 });
    // The slot is not passed on to the waiting step.
    const withoutBackground = composeEngine({
      ...engine,
      tasks: around(engine.tasks, { runExclusive: () => undefined }),
    });
    await harness.run(cancelRun(withoutBackground, cancelRequest(first)));
    const refused = { kind: "full", current: 1, limit: 2, waiting: 1 };
    expect(await harness.start(engine, "ask")).toEqual(refused);
    const again = { org: "default", runId: first, fromStep: "ask", by: "bob", idempotencyKey: null };
    expect(await harness.run(rerun(engine, again))).toEqual(refused);
    const retried = redriveDeadLetter(engine, { org: "default", id: deadLetter?.id ?? "", by: "bob" });
    expect(await harness.run(retried)).toEqual(refused);
    expect(await harness.start(engine, "ask", { idempotencyKey: "k" })).toMatchObject({
      kind: "replayed",
      runId: first,
    });
    expect(await harness.start(engine, "ask", { idempotencyKey: "k", input: 2 })).toMatchObject({ kind: "conflict" });
    // The waiting step retries by itself.
    await harness.pass(40_000);
    expect(harness.runOf(outer).state).toBe("SUCCEEDED");
    expect(await harness.start(engine, "ask")).toMatchObject({ kind: "started" });
    expect(harness.runOf(bad).state).toBe("FAILED");
  });

  test("polled admission also respects the queue", async () => {
    const { admission } = defaultSettings();
    const { harness, engine } = await openWithRunLimit(2, [APPROVAL, OUTER, INNER], {
      admission: { ...admission, strategy: "polled" },
    });
    const first = await harness.started(engine, "ask");
    await harness.started(engine, "outer");
    await harness.pass(1_000);
    await harness.run(
      cancelRun(
        composeEngine({ ...engine, tasks: around(engine.tasks, { runExclusive: () => undefined }) }),
        cancelRequest(first),
      ),
    );
    expect(await harness.start(engine, "ask")).toEqual({ kind: "full", current: 1, limit: 2, waiting: 1 });
  });

  test("the end of a run wakes queued steps at once, oldest first", async () => {
    // Too long for a retry to interfere.
    const { retry } = defaultSettings();
    const throttled = { ...retry.throttled, policy: parsePolicy("fixed:1h") };
    const { harness, engine } = await openWithRunLimit(4, [APPROVAL, LATER], { retry: { ...retry, throttled } });
    await harness.apply(engine, { ...APPROVAL, id: "inner" });
    const asks = [await harness.started(engine, "ask"), await harness.started(engine, "ask")];
    const outers: string[] = [];
    for (let at = 0; at < 2; at++) {
      outers.push(await harness.started(engine, "later"));
      await harness.pass(20);
    }
    await harness.pass(2_000);
    const states = () => Promise.all(outers.map(async (id) => (await harness.job(`${id}:sub@1`)).state));
    expect(slotWaits(harness)).toBe(2);
    await harness.run(cancelRun(engine, cancelRequest(asks[0] ?? "")));
    await harness.pass(200);
    expect(await states()).toEqual(["RUNNING", "PENDING"]);
    await harness.run(cancelRun(engine, cancelRequest(asks[1] ?? "")));
    await harness.pass(200);
    expect(await states()).toEqual(["RUNNING", "RUNNING"]);
    expect(slotWaits(harness)).toBe(0);
  });

  test("ten concurrent starts at a limit of 2 admit two, also after the queue is empty again", async () => {
    const { harness, engine } = await openWithRunLimit(2, [APPROVAL, INNER, OUTER]);
    const tally = async () => {
      const starts = Array.from({ length: 10 }, () => startRun(engine, { ...RUN_REQUEST, workflowId: "ask" }, "test"));
      const kinds = (await harness.run(Promise.all(starts))).map(({ kind }) => kind);
      return [kinds.filter((kind) => kind === "started").length, kinds.filter((kind) => kind === "full").length];
    };
    expect(await tally()).toEqual([2, 8]);
    for (const { id } of openRuns(harness)) await harness.run(cancelRun(engine, cancelRequest(id)));
    const outer = await harness.started(engine, "outer");
    await harness.pass(5_000);
    expect(harness.runOf(outer).state).toBe("SUCCEEDED");
    expect(await tally()).toEqual([2, 8]);
  });
});

describe("leaving the slot queue", () => {
  const ends: Readonly<Record<string, (harness: RunHarness, engine: Engine, outer: string) => Promise<unknown>>> = {
    "when its job is cancelled": (harness, engine, outer) =>
      harness.run(cancelOwnJob(engine, { org: "default", jobId: `${outer}:sub@1`, by: "bob", why: "no" })),
    "when its run is cancelled": (harness, engine, outer) => harness.run(cancelRun(engine, cancelRequest(outer))),
    "when its timeout ends": (harness) => harness.pass(60_000),
    "when its run is paused": async (harness, engine, outer) => {
      await harness.run(pauseRun(engine, cancelRequest(outer)));
      await harness.pass(40_000);
    },
  };

  test.each(Object.keys(ends))("a step leaves %s", async (reason) => {
    const { harness, engine } = await openWithRunLimit(2, [APPROVAL, INNER]);
    await harness.apply(engine, { id: "outer", steps: { sub: sub("inner", { timeout_sec: 50 }) } });
    const first = await harness.started(engine, "ask");
    const outer = await harness.started(engine, "outer");
    await harness.pass(2_000);
    expect(slotWaits(harness)).toBe(1);
    await ends[reason]?.(harness, engine, outer);
    expect(slotWaits(harness)).toBe(0);
    await harness.run(cancelRun(engine, cancelRequest(first)));
    expect(await harness.start(engine, "ask")).toMatchObject({ kind: "started" });
  });

  test("a redriven step queues again and leaves the queue with its slot", async () => {
    const { harness, engine } = await openWithRunLimit(2, [APPROVAL, INNER]);
    await harness.apply(engine, { id: "outer", steps: { sub: sub("inner", { timeout_sec: 20 }) } });
    const first = await harness.started(engine, "ask");
    const outer = await harness.started(engine, "outer");
    await harness.pass(30_000);
    expect(harness.runOf(outer).state).toBe("FAILED");
    const [deadLetter] = [...harness.sim.net.store.rows(DEAD_LETTERS)];
    const revived = redriveDeadLetter(engine, { org: "default", id: deadLetter?.id ?? "", by: "bob" });
    expect(await harness.run(revived)).toMatchObject({ kind: "revived", state: "PENDING" });
    await harness.pass(2_000);
    expect(slotWaits(harness)).toBe(1);
    await harness.run(cancelRun(engine, cancelRequest(first)));
    await harness.pass(5_000);
    expect(harness.runOf(outer).state).toBe("SUCCEEDED");
    expect(slotWaits(harness)).toBe(0);
  });

  test("a step that cannot start for another reason does not block the queue", async () => {
    const { harness, engine } = await openWithRunLimit(2, [APPROVAL, INNER, OUTER]);
    const first = await harness.started(engine, "ask");
    const outer = await harness.started(engine, "outer");
    await harness.pass(2_000);
    // The run of the waiting step cannot be loaded.
    const { net } = harness.sim;
    const load = net.store.load.bind(net.store);
    net.store.load = (table, id) => {
      if (table.name === RUNS.name && id === outer) throw new Error("unreadable");
      return load(table, id);
    };
    await harness.run(cancelRun(engine, cancelRequest(first)));
    await harness.pass(40_000);
    expect(slotWaits(harness)).toBe(0);
    expect(await harness.start(engine, "ask")).toMatchObject({ kind: "started" });
  });

  test("a wrong queue length is recounted", async () => {
    const { harness, engine } = await openWithRunLimit(2, [APPROVAL]);
    const leak = { lists: [], queue: null, counters: [{ group: SLOT_WAITS_GROUP, name: "default" }], dueMs: null };
    const nowhere = { lists: [], queue: null, counters: [], dueMs: null };
    const put = { table: "leak", id: "1", value: {}, expect: 0, from: nowhere, to: leak };
    harness.sim.net.store.commit({ org: "default", atMs: 0, puts: [put], guards: [], sends: [], watch: [] });
    expect(await harness.start(engine, "ask")).toMatchObject({ kind: "full", waiting: 1 });
    await harness.run(recountSlots(engine));
    expect(await harness.start(engine, "ask")).toMatchObject({ kind: "started" });
  });
});

const openRuns = (harness: RunHarness) =>
  [...harness.sim.net.store.rows(RUNS)].filter(({ value }) => !isRunFinal(value.state));
