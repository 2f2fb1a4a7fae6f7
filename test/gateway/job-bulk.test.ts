// Bulk operations on the jobs of a query, and the totals of lists.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { JOBS, type Job, type JobState } from "../../src/core/model/job.ts";
import { put } from "../../src/ports/store.ts";
import { fresh } from "../core/jobs/stages.ts";
import { openTestGateway, type TestGateway } from "./test-gateway.ts";

let gateway: TestGateway;
let keys: Record<"operator" | "other" | "viewer" | "submitter", string>;

beforeEach(async () => {
  gateway = await openTestGateway();
  const created = await Promise.all([
    gateway.keyOf("default", "operator"),
    gateway.keyOf("other", "operator"),
    gateway.keyOf("default", "viewer"),
    gateway.keyOf("default", "submitter"),
  ]);
  const [operator, other, viewer, submitter] = created.map(({ key }) => key);
  keys = { operator: operator!, other: other!, viewer: viewer!, submitter: submitter! };
});
afterEach(() => gateway.close());

type Who = keyof typeof keys;
const bulk = async (body: object, who: Who = "operator") =>
  (await gateway.call("POST", "/api/v1/jobs/bulk", { key: keys[who], body })).json();
const get = async (path: string, who: Who = "operator") =>
  (await gateway.call("GET", `/api/v1${path}`, { key: keys[who] })).json();

/** Due in a day, and in no backlog: the control plane does nothing with it. Ids sort by `n`. */
function job(n: number, state: JobState, fields: Partial<Job> = {}): Job {
  const dueMs = gateway.world.clock.now() + 86_400_000;
  const [id, createdMs] = [`j${1_000 + n}`, gateway.world.clock.now() - 60_000 + n];
  return { ...fresh({ topic: "pay" }), id, traceId: id, state, createdMs, dueMs, deadlineMs: dueMs, ...fields };
}

async function store(...jobs: readonly Job[]): Promise<void> {
  for (const one of jobs) await gateway.engine.commit({ org: one.org, puts: [put(JOBS, one.id, null, one)] });
}

const stateOf = async (n: number) => (await get(`/jobs/j${1_000 + n}`)).state;
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at);

describe("bulk cancel of jobs", () => {
  test("L49: changes exactly the jobs that the dry run counted, in pages, and audits the start once", async () => {
    await store(...range(0, 25).map((n) => job(n, n % 2 === 0 ? "RETRYING" : "PENDING", { labels: { team: "a" } })));
    await store(job(50, "SUCCEEDED"), job(51, "PENDING", { topic: "mail" }));
    const query = { action: "cancel", topic: "pay", label: "team=a", reason: "wrong price" };
    const dry = await bulk({ ...query, dry_run: true });
    expect(dry).toMatchObject({ matched: 25, done: 0 });
    expect(dry.sample.map(({ job_id }: { job_id: string }) => job_id)).toEqual(range(0, 5).map((n) => `j${1_000 + n}`));
    await store(job(99_999, "PENDING", { labels: { team: "a" }, createdMs: gateway.world.clock.now() + 1_000 }));
    const first = await bulk({ ...query, cursor: dry.next_cursor, limit: 15 });
    expect(first).toMatchObject({ matched: 25, done: 15, rejected: [], stopped: null });
    expect(await bulk({ ...query, cursor: first.next_cursor })).toMatchObject({ done: 10, next_cursor: null });
    expect((await get("/jobs?state=CANCELLED&count=true")).total).toEqual({ count: 25, exact: true });
    expect(await stateOf(50)).toBe("SUCCEEDED");
    expect(await stateOf(51)).toBe("PENDING");
    expect((await get("/jobs/j100999")).state).toBe("PENDING");
    const entries = async (action: string) =>
      (await get(`/audit?limit=200&action=${encodeURIComponent(action)}`)).items;
    // A sweep appends the entries to the chain.
    await expect.poll(async () => (await entries("cancelled")).length, { timeout: 30_000 }).toBe(25);
    expect(await entries("bulk cancel of jobs")).toMatchObject([
      { facts: { topic: "pay", label: "team=a", matched: 25, why: "wrong price" } },
    ]);
  });

  test("L50: applies to the filter only, not to all jobs", async () => {
    await store(job(0, "PENDING"), job(1, "RETRYING"), job(2, "PENDING", { topic: "mail" }));
    expect(await bulk({ action: "cancel", state: "PENDING", topic: "pay" })).toMatchObject({ matched: 1, done: 1 });
    expect([await stateOf(0), await stateOf(1), await stateOf(2)]).toEqual(["CANCELLED", "RETRYING", "PENDING"]);
  });

  test("never changes more jobs than were counted, also if others enter the query", async () => {
    await store(...range(0, 3).map((n) => job(n, "RETRYING")));
    const dry = await bulk({ action: "cancel", state: "RETRYING", dry_run: true });
    // Submitted before the count, but in another state then.
    await store(...range(3, 9).map((n) => job(n, "RETRYING")));
    const page = await bulk({ action: "cancel", state: "RETRYING", cursor: dry.next_cursor, limit: 2 });
    expect(page).toMatchObject({ matched: 3, done: 2 });
    const last = await bulk({ action: "cancel", state: "RETRYING", cursor: page.next_cursor });
    expect(last).toMatchObject({ matched: 3, done: 1, next_cursor: null });
  });

  test("repeated and concurrent pages cancel no job twice", async () => {
    await store(...range(0, 30).map((n) => job(n, "PENDING")));
    const { next_cursor } = await bulk({ action: "cancel", dry_run: true });
    const pages = await Promise.all([1, 2, 3].map(() => bulk({ action: "cancel", cursor: next_cursor })));
    expect(pages.reduce((sum, { done }) => sum + done, 0)).toBe(30);
    expect(pages.flatMap(({ rejected }) => rejected)).toEqual([]);
  });

  test("is for operators, within their tenant", async () => {
    await store(job(0, "PENDING"));
    for (const who of ["viewer", "submitter"] as const) {
      expect(await bulk({ action: "cancel", dry_run: true }, who)).toMatchObject({ status: 403 });
    }
    const { next_cursor } = await bulk({ action: "cancel", dry_run: true });
    expect(await bulk({ action: "cancel" }, "other")).toMatchObject({ matched: 0, done: 0, next_cursor: null });
    expect(await bulk({ action: "cancel", cursor: next_cursor }, "other")).toMatchObject({ code: "invalid_cursor" });
    expect(await stateOf(0)).toBe("PENDING");
  });

  test.each([
    [{ action: "cancel", state: "SUCCEEDED" }, "no effect on jobs that are SUCCEEDED"],
    [{ action: "retry", state: "RUNNING" }, "no effect on jobs that are RUNNING"],
    [{ action: "drop" }, "action"],
    [{ action: "cancel", trace_id: "t" }, "trace_id"],
    [{ action: "cancel", label: "team" }, "key=value"],
  ])("rejects %j", async (body, why) => {
    const problem = await bulk(body);
    expect(problem).toMatchObject({ status: 400, code: "invalid_request" });
    expect(JSON.stringify(problem)).toContain(why);
  });
});

describe("bulk retry of jobs", () => {
  test("redrives failed jobs from their dead letters and reports those without one", async () => {
    const { key } = await gateway.keyOf("*", "worker");
    for (const id of ["a", "b", "c"]) {
      const body = { job_id: id, topic: "pay", input: id };
      await gateway.call("POST", "/api/v1/jobs", { key: keys.operator, body });
      const lease = { worker_id: "w", topics: ["pay"], wait_ms: 5_000 };
      const [leased] = (await gateway.call("POST", "/api/v1/worker/lease", { key, body: lease })).json().jobs;
      const failure = { lease_id: leased.lease_id, error: "broken", retryable: false };
      await gateway.call("POST", `/api/v1/worker/jobs/${id}/fail`, { key, body: failure });
    }
    expect((await get("/jobs?state=FAILED&count=true")).total).toEqual({ count: 3, exact: true });
    await gateway.call("DELETE", "/api/v1/dlq/b", { key: keys.operator });
    const dry = await bulk({ action: "retry", topic: "pay", dry_run: true });
    expect(dry).toMatchObject({ matched: 3 });
    const page = await bulk({ action: "retry", topic: "pay", cursor: dry.next_cursor });
    expect(page).toMatchObject({ done: 2, rejected: [{ id: "b", code: "dead_letter_not_found" }], next_cursor: null });
    expect((await get("/dlq")).items).toEqual([]);
    for (const id of ["a", "c"]) expect((await get(`/jobs/${id}`)).state).not.toBe("FAILED");
    expect((await get("/jobs/b")).state).toBe("FAILED");
  });
});

describe("totals of lists", () => {
  test("are exact up to a bound, and only on request", async () => {
    await store(...range(0, 7).map((n) => job(n, n < 5 ? "PENDING" : "RETRYING")));
    expect(await get("/jobs?limit=1")).not.toHaveProperty("total");
    expect((await get("/jobs?limit=1&count=true")).total).toEqual({ count: 7, exact: true });
    expect((await get("/jobs?limit=1&count=true&state=PENDING")).total).toEqual({ count: 5, exact: true });
    expect((await get("/jobs?limit=1&count=true", "other")).total).toEqual({ count: 0, exact: true });
    expect((await get("/workflow-runs?count=true")).total).toEqual({ count: 0, exact: true });
    expect((await get("/dlq?count=true")).total).toEqual({ count: 0, exact: true });
    // No index answers it.
    expect(await get("/jobs?count=true&updated_after=2030-01-01")).not.toHaveProperty("total");
    expect(await get("/audit?count=true")).toMatchObject({ status: 400 });
  });
});
