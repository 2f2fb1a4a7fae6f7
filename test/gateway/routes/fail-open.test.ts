import { afterEach, describe, expect, test } from "vitest";
import { defaultSettings } from "../../../src/config/config.ts";
import { bypassSafety, newJob } from "../../../src/core/jobs/lifecycle.ts";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { JOBS } from "../../../src/core/model/job.ts";
import { put } from "../../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

let gateway: TestGateway;

afterEach(() => gateway.close());

const FAIL_OPEN = "/api/v1/failopen";
const post = (url: string, body: object, key?: string) => gateway.call("POST", url, { key, body });
const get = (url: string, key?: string) => gateway.call("GET", url, { key });

describe("fail-open leases", () => {
  test("are opened with an end, listed, and closed", async () => {
    gateway = await openTestGateway();
    const opened = await post(FAIL_OPEN, { scope: "*", reason: "the kernel's machine burns", minutes: 10 });
    expect(opened.json()).toMatchObject({ scope: "*", state: "in_force", approved_by: "local", ended_at: null });
    const { id, opened_at, ends_at } = opened.json();
    expect(Date.parse(ends_at) - Date.parse(opened_at)).toBe(600_000);
    expect(gateway.logged).toContain("warn fail_open_opened");
    expect((await get(FAIL_OPEN)).json()).toMatchObject({ items: [{ id, state: "in_force" }], next_cursor: null });
    expect((await post(`${FAIL_OPEN}/${id}/close`, {})).json()).toMatchObject({ state: "ended", ended_by: "local" });
    expect((await post(`${FAIL_OPEN}/${id}/close`, {})).statusCode).toBe(200);
    expect((await get(FAIL_OPEN)).json()).toMatchObject({ items: [{ id, state: "ended" }] });
    expect((await post(`${FAIL_OPEN}/unknown/close`, {})).json()).toMatchObject({
      status: 404,
      code: "lease_not_found",
    });
  });

  test("default to 30 minutes, require a reason, and have a maximum duration", async () => {
    gateway = await openTestGateway();
    const { opened_at, ends_at, scope } = (await post(FAIL_OPEN, { reason: "a test" })).json();
    expect([Date.parse(ends_at) - Date.parse(opened_at), scope]).toEqual([1_800_000, "default"]);
    for (const body of [
      {},
      { reason: "" },
      { reason: "x", minutes: 241 },
      { reason: "x", minutes: 0 },
      { reason: " " },
    ]) {
      expect((await post(FAIL_OPEN, body)).statusCode).toBe(400);
    }
    expect((await post(FAIL_OPEN, { reason: "x", scope: "no tenant" })).statusCode).toBe(400);
  });

  test("administrators control leases of their own tenant only", async () => {
    gateway = await openTestGateway();
    const root = (await gateway.keyOf("*", "admin")).key;
    const acme = (await gateway.keyOf("acme", "admin")).key;
    const viewer = (await gateway.keyOf("acme", "viewer")).key;
    const birch = (await gateway.keyOf("birch", "admin")).key;
    expect((await post(FAIL_OPEN, { reason: "x" }, viewer)).statusCode).toBe(403);
    expect((await post(FAIL_OPEN, { reason: "x", scope: "*" }, acme)).json()).toMatchObject({
      code: "tenant_forbidden",
    });
    expect((await post(FAIL_OPEN, { reason: "x", scope: "birch" }, acme)).json()).toMatchObject({
      code: "tenant_forbidden",
    });
    const own = (await post(FAIL_OPEN, { reason: "x" }, acme)).json();
    expect(own.scope).toBe("acme");
    const all = (await post(FAIL_OPEN, { reason: "x", scope: "*" }, root)).json();
    const seenBy = async (key: string) =>
      (await get(FAIL_OPEN, key))
        .json()
        .items.map(({ id }: { id: string }) => id)
        .sort();
    expect(await seenBy(viewer)).toEqual([own.id, all.id].sort());
    expect(await seenBy(birch)).toEqual([all.id]);
    expect((await post(`${FAIL_OPEN}/${own.id}/close`, {}, birch)).json()).toMatchObject({ code: "lease_not_found" });
    expect((await post(`${FAIL_OPEN}/${all.id}/close`, {}, birch)).json()).toMatchObject({ code: "tenant_forbidden" });
    expect((await post(`${FAIL_OPEN}/${own.id}/close`, {}, root)).statusCode).toBe(200);
  });
});

test("bypassed jobs await a review, which records the decision of the policy", async () => {
  gateway = await openTestGateway();
  await bypassed("j1");
  expect((await get(`${FAIL_OPEN}/bypassed`)).json()).toMatchObject({
    items: [{ job_id: "j1", lease_id: "l1", verdict: null }],
  });
  const reviewed = await post(`${FAIL_OPEN}/bypassed/j1/review`, { note: "looked harmless" });
  expect(reviewed.json()).toMatchObject({
    job_id: "j1",
    reviewed_by: "local",
    note: "looked harmless",
    verdict: { decision: "allow" },
  });
  expect((await get(`${FAIL_OPEN}/bypassed`)).json().items).toEqual([]);
  expect((await get(`${FAIL_OPEN}/bypassed?reviewed=true`)).json().items).toHaveLength(1);
  expect((await post(`${FAIL_OPEN}/bypassed/unknown/review`, {})).json()).toMatchObject({ code: "job_not_found" });
});

/** A job after a bypass. */
async function bypassed(jobId: string): Promise<void> {
  const { engine } = gateway;
  const checked = checkSubmission({ topic: "demo.echo" });
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  const given = { nowMs: engine.world.clock.now(), settings: defaultSettings(), random: () => 0 };
  const job = newJob(checked.submission, { jobId, traceId: jobId }, { kind: "inline", value: null }, given);
  const after = bypassSafety(job, { id: "l1" }, "no response", given);
  await engine.commit({ org: job.org, puts: [put(JOBS, jobId, null, after)] });
}
