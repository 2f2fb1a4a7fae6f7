// Filters of the job list: compared with a filter over all jobs, and by the number of records that they read.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { JOBS, type Job, type JobState } from "../../src/core/model/job.ts";
import { unindexedJobsOf } from "../../src/core/model/lists/job-lists.ts";
import { INDEXED_LABELS_MAX } from "../../src/core/model/lists/labels.ts";
import type { RetryClass } from "../../src/core/retry/retry-classes.ts";
import { put } from "../../src/ports/store.ts";
import type { World } from "../../src/ports/world.ts";
import { fresh } from "../core/jobs/stages.ts";
import { openTestGateway, type TestGateway } from "./test-gateway.ts";

interface Page {
  readonly items: readonly { readonly job_id: string }[];
  readonly next_cursor: string | null;
}

let gateway: TestGateway;
let jobs: readonly Job[];
let read = 0;
const startMs = Date.now() - 3_600_000;

beforeAll(async () => {
  gateway = await openTestGateway({ change: (world) => ({ store: countingReads(world) }) });
  jobs = Array.from({ length: 240 }, (_, n) => jobAt(n));
  await store(jobs);
});
afterAll(() => gateway.close());

const STATES = ["PENDING", "RETRYING", "RUNNING", "SUCCEEDED", "FAILED"] as const;
const CLASSES = ["no_worker", "safety_unavailable", "unclassified"] as const;
const TOPICS = ["pay", "pay.refund", "mail"] as const;

/** Due in a day: the control plane does nothing with them. */
function jobAt(n: number, state: JobState = STATES[n % STATES.length]!): Job {
  const retryClass: RetryClass = CLASSES[n % CLASSES.length]!;
  const isWaiting = state === "RETRYING" || (state === "PENDING" && n % 2 === 0);
  const untilMs = startMs + 86_400_000;
  return {
    ...fresh({ topic: TOPICS[n % 7 < 4 ? 0 : n % 7 < 6 ? 1 : 2] }),
    id: `j${n}`,
    traceId: `j${n}`,
    state,
    createdMs: startMs + Math.floor(n / 3),
    dueMs: untilMs,
    deadlineMs: untilMs,
    labels: n % 4 === 0 ? {} : { team: `t${n % 3}`, "größe=x": n % 2 === 0 ? "a=b" : "/" },
    wait: isWaiting ? { retryClass, reason: "why", untilMs, setBy: "worker" } : null,
  };
}

async function store(records: readonly Job[]): Promise<void> {
  await Promise.all(
    records.map((job) => gateway.engine.commit({ org: job.org, puts: [put(JOBS, job.id, null, job)] })),
  );
}

function countingReads({ store }: World): World["store"] {
  const list: World["store"]["list"] = async (table, query) => {
    const page = await store.list(table, query);
    read += page.items.length;
    return page;
  };
  return new Proxy(store, {
    get: (target, name) => {
      if (name === "list") return list;
      const member = Reflect.get(target, name) as unknown;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

const get = (path: string) => gateway.call("GET", `/api/v1${path}`);

async function pagesOf(filter: string, limit: number): Promise<readonly (readonly string[])[]> {
  const pages: string[][] = [];
  for (let cursor = ""; pages.length < 300; ) {
    const page = (await get(`/jobs?${filter}&limit=${limit}${cursor}`)).json<Page>();
    pages.push(page.items.map(({ job_id }) => job_id));
    if (page.next_cursor === null) return pages;
    cursor = `&cursor=${page.next_cursor}`;
  }
  throw new Error("no last page");
}

const FILTERS: Readonly<Record<string, readonly (readonly [value: string, matches: (job: Job) => boolean])[]>> = {
  state: [
    ["FAILED", ({ state }) => state === "FAILED"],
    ["RETRYING", ({ state }) => state === "RETRYING"],
  ],
  topic: [
    ["pay", ({ topic }) => topic === "pay"],
    ["job.mail", ({ topic }) => topic === "mail"],
  ],
  label: [
    ["team=t1", ({ labels }) => labels.team === "t1"],
    ["größe=x=a=b", () => false],
    ["none=x", () => false],
  ],
  retrying: [["true", ({ wait }) => wait !== null]],
  class: [["no_worker", ({ wait }) => wait?.retryClass === "no_worker"]],
  since: [[new Date(startMs + 40).toISOString(), ({ createdMs }) => createdMs >= startMs + 40]],
};

describe("job list filters", () => {
  test("every combination returns exactly the jobs that match, in full pages, and reads no others (L40)", async () => {
    type Combination = readonly [query: string, matches: (job: Job) => boolean];
    let combinations: readonly Combination[] = [["", () => true]];
    for (const [name, values] of Object.entries(FILTERS)) {
      combinations = combinations.flatMap(([query, matches]): Combination[] => [
        [query, matches],
        ...values.map(
          ([value, also]): Combination => [
            `${query}&${name}=${encodeURIComponent(value)}`,
            (job) => matches(job) && also(job),
          ],
        ),
      ]);
    }
    expect(combinations).toHaveLength(3 * 3 * 4 * 2 * 2 * 2);
    for (const [query, matches] of combinations) {
      const expected = jobs.filter(matches).toSorted((a, b) => b.createdMs - a.createdMs || (a.id < b.id ? 1 : -1));
      read = 0;
      const pages = await pagesOf(query, 37);
      expect(pages.flat(), query).toEqual(expected.map(({ id }) => id));
      expect(read, query).toBe(expected.length);
      expect(pages.length, query).toBe(Math.max(1, Math.ceil(expected.length / 37)));
    }
  });

  test("labels are compared whole: a key with `=` is found by no other split", async () => {
    const job = { ...jobAt(900, "FAILED"), labels: { a: "=b", long: "x".repeat(200), "\u{1F600}": "\ud800" } };
    await store([job]);
    const idsOf = async (label: string) => (await pagesOf(`label=${encodeURIComponent(label)}`, 50)).flat();
    expect(await idsOf("a==b")).toEqual(["j900"]);
    expect(await idsOf("a=")).toEqual([]);
    expect(await idsOf(`long=${"x".repeat(200)}`)).toEqual(["j900"]);
    expect(await idsOf(`long=${"x".repeat(199)}`)).toEqual([]);
    expect((await get("/jobs?topic=pay&since=1h30m")).statusCode).toBe(400);
  });

  test("lists a job under its first labels by name only, never under those of the control plane", () => {
    const labels = Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`l${String(n).padStart(2, "0")}`, "x"]));
    const listsOf = (change: Partial<Job>) => JOBS.placement({ ...jobAt(1, "FAILED"), labels: {}, ...change }).lists;
    expect(listsOf({})).toHaveLength(2);
    expect(listsOf({ labels: { run_id: "r", workflow_id: "w", step_id: "s" } })).toHaveLength(2);
    expect(listsOf({ labels })).toHaveLength(2 + 2 * INDEXED_LABELS_MAX);
    expect(listsOf({ labels }).map(({ name }) => name)).toContain("jobs/default/FAILED/pay/3:l07=x");
    for (const { name } of listsOf({ labels: { ["k".repeat(256)]: "v".repeat(256) } })) {
      expect(name.length).toBeLessThan(80);
    }
  });

  test.each([
    ["label=run_id=r", "is no filter"],
    ["label=x", "must be `key=value`"],
    ["class=lockbusy", "did you mean `lock_busy`?"],
    ["since=soon", "must be a duration"],
    ["retrying=maybe", "retrying"],
    ["label=a=b&label=c=d", "not an array"],
  ])("?%s is refused with the reason", async (query, reason) => {
    const response = await get(`/jobs?${query}`);
    expect(response.statusCode).toBe(400);
    expect(response.body).toContain(reason);
  });

  test("indexes the jobs of an earlier version at the first request that needs it", async () => {
    const { indexed: _, ...earlier } = jobAt(901, "FAILED");
    await store([{ ...earlier, org: "old", topic: "aged" }]);
    const call = (query: string) => gateway.call("GET", `/api/v1/jobs?${query}`, { tenant: "old" });
    expect((await call("state=failed")).json<Page>().items).toHaveLength(1);
    const first = await call("topic=aged");
    expect(first.json()).toMatchObject({ status: 503, code: "index_building", left: 1, retryable: true });
    await expect.poll(async () => (await call("topic=aged")).json<Page>().items?.length).toBe(1);
    expect(await gateway.world.store.count(JOBS, { index: unindexedJobsOf("old") })).toBe(0);
  });
});
