import { describe, expect, test } from "vitest";
import type { Decision } from "../../../src/core/policy/decision.ts";
import { cancelOwnJob } from "../../../src/engine/dispatch/cancel-job.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { redriveDeadLetter } from "../../../src/engine/maintenance/redrive.ts";
import { cancelRun, pauseRun, resumeRun } from "../../../src/engine/runs/control-run.ts";
import { removeRun } from "../../../src/engine/runs/remove-run.ts";
import { runLockKey } from "../../../src/engine/runs/run-lock.ts";
import { approve, reject } from "../../../src/engine/safety/approve-job.ts";
import { idOf } from "../harness.ts";
import { RunHarness } from "../run-harness.ts";
import { auditLines } from "./audit-lines.ts";

/** Every action of a person leaves one audit entry with their name, in the commit of the action. */

const steps = {
  ask: { type: "approval" },
  work: { topic: "demo.none" },
  fails: { topic: "demo.fails", retry: { max_retries: 0 }, on_error: "continue" },
};

async function openRun() {
  const harness = new RunHarness();
  const { engine } = await harness.control("c1");
  await harness.worker("w1", ["demo.fails"], () => Promise.reject(new Error("no")));
  await harness.apply(engine, { id: "flow", steps });
  const runId = await harness.started(engine, "flow", { submittedBy: "alice" });
  await harness.pass(2_000);
  return {
    harness,
    engine,
    runId,
    job: (step: string) => ({ org: "default", jobId: `${runId}:${step}@1`, by: "bob" }),
  };
}

const KINDS = ["run", "approval", "cancel", "dead_letter"] as const;
async function entriesOf(harness: RunHarness, engine: Engine): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const kind of KINDS) lines.push(...(await auditLines(harness, engine, kind)).map((line) => `${kind}: ${line}`));
  return lines.filter((line) => line.includes("bob"));
}

const why = "because";
type Opened = Awaited<ReturnType<typeof openRun>>;
const control = ({ runId }: Opened) => ({ org: "default", runId, by: "bob", why });

describe("an action on a run leaves one audit entry", () => {
  test.each<{ name: string; entry: string; act: (opened: Opened) => Promise<unknown> }>([
    { name: "pause", entry: "run: bob pause", act: (opened) => pauseRun(opened.engine, control(opened)) },
    { name: "cancel", entry: "run: bob cancel", act: (opened) => cancelRun(opened.engine, control(opened)) },
    {
      name: "approve a step",
      entry: "approval: bob approved",
      act: ({ engine, job }) => approve(engine, job("ask")),
    },
    {
      name: "reject a step",
      entry: "approval: bob rejected",
      act: ({ engine, job }) => reject(engine, { ...job("ask"), why }),
    },
    {
      name: "cancel a step's job",
      entry: "cancel: bob cancelled",
      act: ({ engine, job }) => cancelOwnJob(engine, { ...job("work"), why }),
    },
    {
      name: "redrive a step's job",
      entry: "dead_letter: bob retried",
      act: ({ engine, job }) => redriveDeadLetter(engine, { org: "default", id: job("fails").jobId, by: "bob" }),
    },
  ])("$name", async ({ entry, act }) => {
    const opened = await openRun();
    const { harness, engine } = opened;
    await harness.run(act(opened));
    expect(await entriesOf(harness, engine)).toEqual([entry]);
    // The sweeper and later requests that change nothing add no entry.
    await harness.pass(5_000);
    expect(await entriesOf(harness, engine)).toEqual([entry]);
  });

  test("resume, and removal after the end", async () => {
    const opened = await openRun();
    const { harness, engine, runId } = opened;
    await harness.run(pauseRun(engine, control(opened)));
    await harness.run(pauseRun(engine, control(opened)));
    await harness.run(resumeRun(engine, control(opened)));
    await harness.run(resumeRun(engine, control(opened)));
    await harness.run(cancelRun(engine, control(opened)));
    await harness.run(cancelRun(engine, control(opened)));
    await harness.run(removeRun(engine, { org: "default", runId, by: "bob" }));
    expect(await entriesOf(harness, engine)).toEqual([
      "run: bob pause",
      "run: bob resume",
      "run: bob cancel",
      "run: bob removed",
    ]);
  });

  test("requests that meet in one commit leave one entry each", async () => {
    const opened = await openRun();
    const { harness, engine, runId, job } = opened;
    const lock = { key: runLockKey(runId), org: "default", ttlMs: 1_000, waitMs: 0, owner: "dead" };
    await harness.run(harness.engine("dead").world.locks.acquire(lock));
    harness.crash("dead");
    await harness.run(
      Promise.all([
        approve(engine, job("ask")),
        cancelOwnJob(engine, { ...job("work"), why }),
        pauseRun(engine, control(opened)),
      ]),
    );
    expect([...(await entriesOf(harness, engine))].sort()).toEqual([
      "approval: bob approved",
      "cancel: bob cancelled",
      "run: bob pause",
    ]);
  });
});

test("a cancel that waits for another cancel of the run is answered as late and has no entry", async () => {
  const opened = await openRun();
  const { harness, engine, runId } = opened;
  const second = (await harness.control("c2")).engine;
  const lock = { key: runLockKey(runId), org: "default", ttlMs: 1_000, waitMs: 0, owner: "dead" };
  await harness.run(harness.engine("dead").world.locks.acquire(lock));
  harness.crash("dead");
  const outcomes = await harness.run(
    Promise.all([engine, second].map((one) => cancelRun(one, { ...control(opened), why }))),
  );
  expect(outcomes.map(({ kind }) => kind).sort()).toEqual(["ended", "moved"]);
  expect(await entriesOf(harness, engine)).toEqual(["run: bob cancel"]);
});

describe("an action on a job leaves one audit entry", () => {
  const ask: Decision = { effect: "require_approval", ruleId: "r", reason: "look", snapshot: "s" };

  test.each<{ entry: string; act: (engine: Engine, jobId: string) => Promise<unknown> }>([
    { entry: "approval: bob approved", act: (engine, jobId) => approve(engine, { org: "default", jobId, by: "bob" }) },
    {
      entry: "approval: bob rejected",
      act: (engine, jobId) => reject(engine, { org: "default", jobId, by: "bob", why }),
    },
    {
      entry: "cancel: bob cancelled",
      act: (engine, jobId) => cancelOwnJob(engine, { org: "default", jobId, by: "bob", why }),
    },
  ])("$entry", async ({ entry, act }) => {
    const harness = new RunHarness();
    Object.assign(harness.kernel, { decide: () => ask });
    const { engine } = await harness.control("c1");
    const jobId = idOf(await harness.admit(engine, { topic: "demo.none", submittedBy: "alice" }));
    await harness.run(act(engine, jobId));
    await harness.run(act(engine, jobId));
    expect(await entriesOf(harness, engine)).toEqual([entry]);
  });
});
