import { afterAll, beforeAll, expect, test } from "vitest";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { isFinal, JOBS, type Job } from "../../../src/core/model/job.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { nats, worker } from "../../../src/worlds/worker-sdk.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { openTestCluster } from "../fixtures/cluster.ts";

let servers: { readonly nats: RunningServer; readonly redis: RunningServer };
let engine: Engine;
let close: () => Promise<void>;

beforeAll(async () => {
  const [bus, store] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  servers = { nats: bus, redis: store };
  const opened = await openTestCluster({ nats: bus.url, redis: store.url, name: "c1" });
  engine = openEngine(opened.world, { current: opened.settings });
  const control = await startControl(engine);
  close = async () => {
    await control.stop();
    await opened.close();
  };
});

afterAll(async () => {
  await close();
  await Promise.all([servers.nats.stop(), servers.redis.stop()]);
});

async function run(raw: Record<string, unknown>): Promise<Job> {
  const checked = checkSubmission({ topic: "t", ...raw });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  let onEnd = (_id: string): void => {};
  const ended = new Promise<void>((resolve) => {
    const id = checked.submission.jobId;
    onEnd = (jobId) => jobId === id && resolve();
  });
  const stop = engine.events.subscribe(({ jobId, state }) => isFinal(state) && onEnd(jobId));
  await admitJob(engine, checked.submission);
  await ended;
  stop();
  const found = await engine.world.store.load(JOBS, checked.submission.jobId ?? "");
  if (!found) throw new Error("the job does not exist");
  return found.value;
}

test("a NATS worker gets small payloads inline and large ones by pointer, and extends its lease", async () => {
  const attempts: number[] = [];
  const stop = await worker({
    id: "sdk",
    topics: ["t"],
    transport: nats({ nats: servers.nats.url, redis: servers.redis.url }),
    handle: async (item) => {
      attempts.push(item.attempt);
      const { ms = 0, text = "" } = item.input as { ms?: number; text?: string };
      await new Promise<void>((resolve) => engine.world.clock.after(ms, resolve));
      return { length: text.length, text };
    },
  });
  expect(await run({ jobId: "small", input: { text: "abc" } })).toMatchObject({
    state: "SUCCEEDED",
    workerId: "sdk",
    output: { kind: "inline", value: { length: 3, text: "abc" } },
  });
  const large = await run({ jobId: "large", input: { text: "x".repeat(300_000) } });
  expect(large).toMatchObject({ state: "SUCCEEDED", output: { kind: "pointer", bytes: 300_027 } });
  const { deadlineMs } = engine.settings.current.dispatch;
  const long = await run({ jobId: "long", input: { ms: deadlineMs * 1.7 } });
  expect(long).toMatchObject({ state: "SUCCEEDED", attempt: 1 });
  expect(attempts).toEqual([1, 1, 1]);
  expect(engine.registry.list(engine.world.clock.now())).toMatchObject([
    { id: "sdk", transport: "bus", topics: ["t"] },
  ]);
  await stop();
});
