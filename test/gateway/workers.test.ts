import { afterEach, expect, test } from "vitest";
import { defaultSettings } from "../../src/config/config.ts";
import { JOBS } from "../../src/core/model/job.ts";
import { put } from "../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "./test-gateway.ts";

let gateway: TestGateway;
afterEach(() => gateway.close());

test("a silent HTTP worker stays listed with its leases until they end, and explain agrees", async () => {
  const settings = defaultSettings();
  let aheadMs = 0;
  gateway = await openTestGateway({
    settings: { ...settings, dispatch: { ...settings.dispatch, deadlineMs: 600_000 } },
    change: ({ clock }) => ({ clock: { now: () => clock.now() + aheadMs, after: clock.after.bind(clock) } }),
  });
  const get = async (path: string, key?: string) => (await gateway.call("GET", `/api/v1${path}`, { key })).json();
  const submit = async () => {
    const body = { topic: "demo.far" };
    return (await gateway.call("POST", "/api/v1/jobs", { body })).json().job_id;
  };
  const lease = async (worker_id: string) => {
    const body = { worker_id, topics: ["demo.far"], wait_ms: 5_000 };
    return (await gateway.call("POST", "/api/v1/worker/lease", { body })).json().jobs[0];
  };
  const id = await submit();
  const leased = await lease("w1");
  expect((await get("/workers")).items).toMatchObject([{ worker_id: "w1", silent_ms: null, leases: [{ job_id: id }] }]);
  expect((await get(`/jobs/${id}/explain`)).sentence).not.toContain("silent");

  aheadMs = 45_000;
  const [silent, ...others] = (await get("/workers")).items;
  expect(others).toEqual([]);
  expect(silent).toMatchObject({ worker_id: "w1", active_jobs: 1, leases: [{ job_id: id, topic: "demo.far" }] });
  expect(silent.silent_ms).toBeGreaterThanOrEqual(45_000);
  expect(silent.leases[0].deadline).toBe(leased.deadline);
  expect(await get("/workers/w1")).toMatchObject({ worker_id: "w1", leases: [{ job_id: id }] });
  expect((await get(`/jobs/${id}/explain`)).sentence).toMatch(/the worker is silent for (4[5-9]|[5-9]\d) s/);

  // A worker that this process has not seen: its lease is all that is known.
  const found = await gateway.world.store.load(JOBS, id);
  const puts = found === null ? [] : [put(JOBS, id, found, { ...found.value, workerId: "elsewhere" })];
  await gateway.engine.commit({ org: "default", puts });
  expect((await get("/workers")).items).toMatchObject([
    { worker_id: "elsewhere", topics: ["demo.far"], transport: "http" },
  ]);
  expect((await get(`/jobs/${id}/explain`)).sentence).toContain("worker `elsewhere`");

  // Another tenant sees neither the worker nor its job.
  const [{ key: other }, { key }] = [await gateway.keyOf("acme", "viewer"), await gateway.keyOf("default", "admin")];
  expect((await get("/workers", other)).items).toEqual([]);
  const complete = { key, body: { lease_id: leased.lease_id } };
  await gateway.call("POST", `/api/v1/worker/jobs/${id}/complete`, complete);
  expect((await get("/workers", key)).items).toEqual([]);
});
