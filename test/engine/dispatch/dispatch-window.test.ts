import { expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { FIRST_WINDOW } from "../../../src/core/jobs/dispatch-window.ts";
import type { Job } from "../../../src/core/model/job.ts";
import { recordLoss, recordSuccess } from "../../../src/engine/dispatch/dispatch-window.ts";
import { composeEngine, openEngine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { simWorld } from "../../../src/sim/adapters/world.ts";
import { Harness, idOf } from "../harness.ts";

interface Silent {
  readonly jobs: number;
  readonly parallel: number;
  readonly jobMs: number;
  readonly deadlineMs: number;
  readonly measures?: boolean;
}

/** Runs jobs on a worker without handshake and heartbeat that queues internally, as third-party workers do. */
async function runSilent({ jobs, parallel, jobMs, deadlineMs, measures = false }: Silent) {
  const harness = new Harness({ dispatch: { ...defaultSettings().dispatch, deadlineMs } });
  const { process } = harness.sim.enter("c1");
  const world = simWorld(harness.sim.net, process, { safety: "local" });
  const bus = new Proxy(world.bus, {
    get: (target, name) => {
      if (name === "hasThirdPartyWorkers") return true;
      const member = Reflect.get(target, name) as unknown;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  const engine = openEngine({ ...world, bus }, { current: harness.settings });
  await harness.run(startControl(engine));
  const { clock } = world;
  const queue: Packet[] = [];
  let [executions, running, mostRunning, endedMs] = [0, 0, 0, 0];
  const work = () => {
    while (running < parallel && queue.length > 0) {
      const packet = queue.shift();
      running++;
      executions++;
      mostRunning = Math.max(mostRunning, running);
      clock.after(jobMs, () => {
        running--;
        endedMs = clock.now();
        if (packet?.body.kind !== "job_request") return;
        const { jobId } = packet.body;
        const body = { kind: "job_result", jobId, status: "succeeded", workerId: "s" } as const;
        const measured = measures ? { ...body, executionMs: jobMs } : body;
        const result = { traceId: "", senderId: "s", createdAtMs: clock.now(), body: measured };
        void bus.publish({ id: `r:${jobId}:${executions}`, subject: RESULT, packet: result });
        work();
      });
    }
  };
  await harness.run(
    bus.serve("job.t", (packet) => {
      queue.push(packet);
      work();
    }),
  );
  const startMs = clock.now();
  for (let n = 0; n < jobs; n++) await harness.admit(engine, { topic: "t", jobId: `j${n}` });
  await harness.pass(jobs * jobMs * 3 + 120_000);
  const states = new Set<string>();
  for (let n = 0; n < jobs; n++) states.add((await harness.job(`j${n}`)).state);
  return { executions, mostRunning, states: [...states], tookMs: endedMs - startMs };
}

test.each([1_500, 2_000, 5_000, 30_000])(
  "a silent serial worker executes each of 20 jobs of 0.5 s once, with a deadline of %i ms",
  async (deadlineMs) => {
    const { executions, states } = await runSilent({ jobs: 20, parallel: 1, jobMs: 500, deadlineMs });
    expect(states).toEqual(["SUCCEEDED"]);
    expect(executions).toBe(20);
  },
);

test.each([
  [1_500, false],
  [1_500, true],
  [30_000, false],
])(
  "the window of a silent parallel worker grows to its capacity: deadline %i ms, measures %s",
  async (deadlineMs, measures) => {
    const [jobs, parallel, jobMs] = [400, 8, 500];
    const { executions, mostRunning, states, tookMs } = await runSilent({
      jobs,
      parallel,
      jobMs,
      deadlineMs,
      measures,
    });
    expect(states).toEqual(["SUCCEEDED"]);
    expect(executions).toBe(jobs);
    expect(mostRunning).toBe(parallel);
    // At least two thirds of its throughput, with the start.
    expect(tookMs).toBeLessThan(((jobs / parallel) * jobMs * 3) / 2);
  },
);

test("a lost attempt shrinks the window: a worker that is too slow is not flooded", async () => {
  // Two jobs in flight exceed the deadline.
  const { executions, states } = await runSilent({ jobs: 40, parallel: 1, jobMs: 800, deadlineMs: 1_500 });
  expect(states).toEqual(["SUCCEEDED"]);
  expect(executions).toBeLessThan(50);
});

/** An engine with third-party workers and a learned window of 4 places. */
async function withWindow(hasThirdPartyWorkers = true) {
  const harness = new Harness();
  const plain = harness.engine("c1");
  const bus = new Proxy(plain.world.bus, {
    get: (target, name) => (name === "hasThirdPartyWorkers" ? hasThirdPartyWorkers : Reflect.get(target, name)),
  });
  const engine = composeEngine({ ...plain, world: { ...plain.world, bus } });
  const sent = { ...(await harness.job(idOf(await harness.admit(engine, { topic: "t" })))), attempt: 1 };
  const job: Job = { ...sent, state: "DISPATCHED", dispatchedMs: engine.world.clock.now() };
  engine.jobCache.setWindow("t", { ...FIRST_WINDOW, size: 4 });
  const sizeAfter = (change: () => void) => {
    change();
    return engine.jobCache.windowOf("t").size;
  };
  return { engine, job, sizeAfter };
}

test.each<{ name: string; facts: Partial<Job>; size: number }>([
  { name: "a dispatched attempt", facts: {}, size: 2 },
  { name: "a running attempt", facts: { state: "RUNNING" }, size: 2 },
  { name: "a leased attempt, whose worker asked for it", facts: { leaseId: "l" }, size: 4 },
  { name: "a job that was not with a worker", facts: { state: "RETRYING" }, size: 4 },
  { name: "a job that was never sent", facts: { dispatchedMs: null }, size: 4 },
])("the loss of $name leaves $size of 4 places", async ({ facts, size }) => {
  const { engine, job, sizeAfter } = await withWindow();
  expect(sizeAfter(() => recordLoss(engine, { ...job, ...facts }))).toBe(size);
});

test.each<{ name: string; facts: Partial<Job>; isFull: boolean; size: number }>([
  { name: "first attempts while jobs wait", facts: {}, isFull: true, size: 8 },
  { name: "first attempts while no job waits", facts: {}, isFull: false, size: 4 },
  { name: "second attempts", facts: { attempt: 2 }, isFull: true, size: 4 },
  { name: "jobs that were never sent", facts: { dispatchedMs: null }, isFull: true, size: 4 },
])("a round of $name changes 4 places to $size", async ({ facts, isFull, size }) => {
  const { engine, job, sizeAfter } = await withWindow();
  if (isFull) engine.jobCache.markFull("t");
  const result = { jobId: job.id, workerId: "w", status: "succeeded" } as const;
  const round = () => {
    for (let answer = 0; answer < 4; answer++) recordSuccess(engine, { ...job, ...facts }, result);
  };
  expect(sizeAfter(round)).toBe(size);
});

test("without third-party workers the window does not change", async () => {
  const { engine, job, sizeAfter } = await withWindow(false);
  engine.jobCache.markFull("t");
  const result = { jobId: job.id, workerId: "w", status: "succeeded" } as const;
  expect(sizeAfter(() => recordLoss(engine, job))).toBe(4);
  expect(
    sizeAfter(() => {
      for (let answer = 0; answer < 4; answer++) recordSuccess(engine, job, result);
    }),
  ).toBe(4);
});
