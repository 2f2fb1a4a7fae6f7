import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SCHEMA } from "../../../src/adapters/redis/script.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { type ControlPlane, openControlPlane } from "./control-plane.ts";
import { accepted, LARGE_INPUT, OF_TENANT, type Recorded, RUN_INPUT, record, restore, save } from "./stored-data.ts";

// One file per released format of the data in Redis. `CORDUM_RECORD_FORMAT=3 npx vitest run test/contract/formats` writes
// the file of a new format; a released file is never written again.
const FIXTURES = join(import.meta.dirname, "fixtures");
const NEW_FORMAT = process.env.CORDUM_RECORD_FORMAT;

let nats: RunningServer;
let redis: RunningServer;

beforeAll(async () => {
  [nats, redis] = await Promise.all([startNats(), startRedis()]);
});
afterAll(() => Promise.all([nats.stop(), redis.stop()]));

if (NEW_FORMAT !== undefined) {
  it(`records format ${NEW_FORMAT}`, async () => {
    await save(join(FIXTURES, `redis-${NEW_FORMAT}.jsonl`), redis.url, await record(nats.url, redis.url));
  });
}

it("has the bytes of every schema up to the current one", () => {
  const schemas = Array.from({ length: SCHEMA }, (_, nth) => `redis-${nth + 1}.jsonl`);
  expect(readdirSync(FIXTURES).sort()).toEqual(schemas);
});

describe.each(readdirSync(FIXTURES))("data of %s", (file) => {
  let plane: ControlPlane;
  let recorded: Recorded;

  beforeAll(async () => {
    recorded = await restore(join(FIXTURES, file), redis.url);
    plane = await openControlPlane({ nats: nats.url, redis: redis.url, nowMs: recorded.atMs + 60_000 });
    plane.use(recorded.keys.submitter);
  });
  afterAll(() => plane.close());

  const get = async (path: string) => accepted(await plane.call("GET", path));
  const post = async (path: string, body: object = {}) => accepted(await plane.call("POST", path, body));

  it("shows every job in its state", async () => {
    const states = {
      succeeded: "SUCCEEDED",
      large: "SUCCEEDED",
      retried: "SUCCEEDED",
      failed: "FAILED",
      denied: "DENIED",
      cancelled: "CANCELLED",
      awaiting: "APPROVAL_REQUIRED",
    } as const;
    for (const [name, state] of Object.entries(states)) {
      expect(await get(`/jobs/${recorded.ids[name as keyof typeof states]}`), name).toMatchObject({ state });
    }
    expect(await get(`/jobs/${recorded.ids.large}`)).toMatchObject({ result: LARGE_INPUT });
    expect(await get(`/jobs/${recorded.ids.retried}`)).toMatchObject({ attempt: 3 });
  });

  it("returns the first job or run for a known idempotency key", async () => {
    const { succeeded, queued, finishedRun, waitingRun } = recorded.ids;
    const again = (topic: string, key: string) => post("/jobs", { topic, input: { n: 1 }, idempotency_key: key });
    expect(await again("demo.echo", "key-of-a-job")).toMatchObject({ job_id: succeeded, replayed: true });
    expect(await again("idle.topic", "key-of-a-queued-job")).toMatchObject({ job_id: queued, replayed: true });
    for (const [key, run_id] of [
      ["key-of-a-run", finishedRun],
      ["key-of-a-waiting-run", waitingRun],
    ]) {
      const request = { input: RUN_INPUT, idempotency_key: key };
      expect(await post("/workflows/recorded/runs", request)).toMatchObject({ run_id, replayed: true });
    }
  });

  it("finds the job of another tenant under the id that its client chose", async () => {
    if (recorded.ofTenant === undefined) return;
    expect(await post("/jobs", OF_TENANT)).toMatchObject({ job_id: recorded.ofTenant, replayed: true });
  });

  it("lists jobs, runs and approvals", async () => {
    const listed = (await get("/jobs?limit=100")).items.map(({ job_id }: { job_id: string }) => job_id);
    const { finishedRun, waitingRun, ...jobs } = recorded.ids;
    expect(listed).toEqual(expect.arrayContaining(Object.values(jobs)));
    const runs = (await get("/workflow-runs")).items.map(({ run_id }: { run_id: string }) => run_id);
    expect(runs.sort()).toEqual([finishedRun, waitingRun].sort());
    expect((await get("/approvals")).items).toHaveLength(2);
  });

  it("approves a waiting job, which then succeeds", async () => {
    const { awaiting } = recorded.ids;
    plane.use(recorded.keys.approver);
    await post(`/approvals/${awaiting}/approve`, { note: "fine" });
    await plane.until(`/jobs/${awaiting}`, ({ body }) => body.state === "SUCCEEDED");
  });

  it("continues a waiting run to its end", async () => {
    const { finishedRun, waitingRun } = recorded.ids;
    plane.use(recorded.keys.approver);
    await post(`/approvals/${waitingRun}:ask@1/approve`, { note: "fine" });
    const ended = await plane.until(`/workflow-runs/${waitingRun}`, ({ body }) => body.state === "SUCCEEDED");
    expect(ended.body.output).toEqual((await get(`/workflow-runs/${finishedRun}`)).output);
  });

  it("retries a dead letter", async () => {
    const { items } = await get("/dlq");
    expect(items).toHaveLength(1);
    expect(items[0].job_id).toBe(recorded.ids.failed);
    await post(`/dlq/${items[0].id}/retry`);
    await plane.until("/dlq", ({ body }) => body.items[0]?.attempt === 2);
  });

  it("cancels a queued job, and verifies the audit log with its new entries", async () => {
    await post(`/jobs/${recorded.ids.queued}/cancel`, { reason: "not needed" });
    expect(await get("/audit/verify")).toMatchObject({ ok: true });
    expect((await get("/audit?limit=5")).items[0]).toMatchObject({ kind: "cancel" });
  });
});
