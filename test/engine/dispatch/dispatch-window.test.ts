import { expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { openEngine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import type { Packet } from "../../../src/protocol/packet.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { simWorld } from "../../../src/sim/adapters/world.ts";
import { Harness } from "../harness.ts";

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
