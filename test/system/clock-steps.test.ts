/** System clocks that are set by a day and an hour, in both directions, on real storage and in real time. */
import { expect, test } from "vitest";
import { systemTime } from "../../src/adapters/node/wall-clock.ts";
import { checkSubmission } from "../../src/core/jobs/submission.ts";
import type { Job } from "../../src/core/model/job.ts";
import { RUNS } from "../../src/core/model/run.ts";
import { leaseJobs } from "../../src/engine/dispatch/index.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import { admitJob } from "../../src/engine/intake/admit-job.ts";
import { defaultRunRequest, startRun } from "../../src/engine/intake/start-run.ts";
import { applyWorkflow } from "../../src/engine/runs/workflows.ts";
import { startControl } from "../../src/engine/start-control.ts";
import { type Backend, type BackendKind, openWorld, withBackend } from "./backends.ts";
import { shortWaitSettings } from "./fixtures/short-waits.ts";

const STEP_MS = 25 * 3_600_000;
const LEASE_MS = shortWaitSettings().dispatch.deadlineMs;
const DELAY_MS = 1_000;
const BACKENDS: readonly BackendKind[] = ["embedded", "NATS + Redis"];

test.each(BACKENDS.flatMap((kind) => [STEP_MS, -STEP_MS].map((stepMs) => [kind, stepMs] as const)))(
  "%s: leases, retries and long polls keep their durations when the system clock is set by %i ms",
  async (kind, stepMs) => {
    await withBackend(kind, async (backend) => {
      const time = new SteppedTime();
      let opened = await openProcess(backend, time);
      await submit(opened.engine);
      const leasedMs = time.monotonicMs();
      expect((await poll(opened.engine, 20_000)).map(({ attempt }) => attempt)).toEqual([1]);
      const empty = poll(opened.engine, LEASE_MS / 3);
      time.stepMs += stepMs;
      expect(await empty).toEqual([]);
      // Timers of the runtime count in milliseconds: one may fire a fraction early.
      expect(time.monotonicMs() - leasedMs).toBeGreaterThan(LEASE_MS / 3 - 1);
      // The lease ends in its own time, and the next attempt is leased.
      expect((await poll(opened.engine, 50_000)).map(({ attempt }) => attempt)).toEqual([2]);
      expect(time.monotonicMs() - leasedMs).toBeGreaterThanOrEqual(LEASE_MS * 0.99);
      expect(opened.control.duties().flatMap(({ late }) => late ?? [])).toEqual([]);
      await opened.close();
      // For a directory, a step forwards between two processes is time that has passed (decision 26): the job times out.
      if (kind === "embedded" && stepMs > 0) return;
      // The next process starts with the system clock as it was set.
      opened = await openProcess(backend, time);
      expect((await poll(opened.engine, 50_000)).map(({ attempt }) => attempt)).toEqual([3]);
      await opened.close();
    });
  },
  120_000,
);

test.each(BACKENDS.flatMap((kind) => [STEP_MS, -STEP_MS].map((stepMs) => [kind, stepMs] as const)))(
  "%s: a delay keeps its duration and its run its slot when the system clock is set by %i ms",
  async (kind, stepMs) => {
    await withBackend(kind, async (backend) => {
      const time = new SteppedTime();
      const { engine, close } = await openProcess(backend, time);
      const document = { id: "wait", steps: { pause: { type: "delay", delay_sec: DELAY_MS / 1_000 } } };
      expect(await applyWorkflow(engine, { org: "default", by: "test", document })).toMatchObject({ kind: "applied" });
      const start = () => startRun(engine, defaultRunRequest("default", "wait", "test"), "test");
      const fromMs = time.monotonicMs();
      const first = await start();
      if (first.kind !== "started") throw new Error(JSON.stringify(first));
      time.stepMs += stepMs;
      // The tenant may have one run: its slot is neither lost nor free before the run ends.
      let next = await start();
      while (next.kind !== "started") {
        expect(next.kind).toBe("full");
        await new Promise<void>((resolve) => time.after(20, resolve));
        next = await start();
      }
      expect(time.monotonicMs() - fromMs).toBeGreaterThanOrEqual(DELAY_MS * 0.99);
      expect((await engine.world.store.load(RUNS, first.runId))?.value.state).toBe("SUCCEEDED");
      await close();
    });
  },
  120_000,
);

/** The clocks of this machine, with a system clock that can be set. */
class SteppedTime {
  stepMs = 0;
  readonly monotonicMs = systemTime.monotonicMs;
  readonly uptimeMs = systemTime.uptimeMs;
  readonly after = systemTime.after;
  readonly wallMs = () => systemTime.wallMs() + this.stepMs;
}

async function openProcess(backend: Backend, time: SteppedTime) {
  const { world, close } = await openWorld(backend, "test", time);
  const settings = shortWaitSettings();
  const limits = { ...settings.limits, concurrentRunsMax: 1 };
  const engine = openEngine(world, { current: { ...settings, limits } });
  const control = await startControl(engine);
  return {
    engine,
    control,
    close: async () => {
      await control.stop();
      await close();
    },
  };
}

async function submit(engine: Engine): Promise<void> {
  const checked = checkSubmission({ topic: "t", input: 1 });
  if (checked.kind !== "ok") throw new Error(checked.problems.join());
  await admitJob(engine, checked.submission);
}

function poll(engine: Engine, waitMs: number): Promise<readonly Job[]> {
  const { signal } = new AbortController();
  return leaseJobs(engine, { org: "*", workerId: "w", topics: ["t"], max: 1, waitMs, signal });
}
