import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { startHttpWorker } from "../../src/adapters/http/http-worker.ts";
import type { WorkItem } from "../../src/worker/item.ts";
import { ManualClock } from "../contract/manual-clock.ts";

/** A gateway with scripted responses that hands out one job and records all requests. */
function scripted(respond: (path: string, nth: number) => { status: number; body?: object }, skewMs = 0) {
  const clock = new ManualClock();
  const requests: { readonly path: string; readonly atMs: number; readonly body: Record<string, unknown> }[] = [];
  const signals = new Set<AbortSignal>();
  const date = () => new Date(clock.now() + skewMs).toUTCString();
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    const path = String(url).replace(/.*\/worker\//, "");
    const nth = requests.filter((one) => one.path === path).length + 1;
    requests.push({ path, atMs: clock.now(), body: JSON.parse(String(init?.body)) });
    const { status, body } = respond(path, nth);
    // An empty long poll lasts until the client aborts it.
    if (init?.signal) signals.add(init.signal);
    if (status === 204) return new Promise<Response>((_, reject) => init?.signal?.addEventListener("abort", reject));
    return new Response(JSON.stringify(body ?? {}), { status, headers: { date: date() } });
  };
  const random = { next: () => 0.5, id: () => "id" };
  const log = { write: () => undefined };
  const start = (handle: (item: WorkItem) => Promise<unknown>) =>
    startHttpWorker(
      { clock, random, fetch, log },
      { url: "http://gateway/" },
      { id: "w", topics: ["t"], concurrency: JOBS_MAX, handle },
    );
  const deadline = (ms: number) => new Date(clock.now() + skewMs + ms).toISOString();
  const job = (id = "j") => ({
    ...{ job_id: id, attempt: 1, lease_id: "l", topic: "t", tenant_id: "default", input: 7, labels: {} },
    ...{ constraints: null, traceparent: null, deadline: deadline(60_000) },
  });
  return { clock, requests, signals, start, job, deadline };
}

const JOBS_MAX = 32;

const jobPaths = (requests: readonly { readonly path: string }[]) =>
  requests.map(({ path }) => path).filter((path) => path !== "lease");

test("retries a result until the server accepts it", async () => {
  const gateway = scripted((path, nth) => {
    if (path === "lease")
      return nth === 2 ? { status: 200, body: { jobs: [gateway.job()] } } : { status: nth === 1 ? 503 : 204 };
    return { status: nth < 4 ? 503 : 200 };
  });
  const stop = await gateway.start(async (item) => ({ got: item.input }));
  await gateway.clock.pass(60_000);
  expect(jobPaths(gateway.requests)).toEqual(Array.from({ length: 4 }, () => "jobs/j/complete"));
  expect(gateway.requests.find(({ path }) => path === "jobs/j/complete")?.body).toEqual({
    lease_id: "l",
    result: { got: 7 },
  });
  const gaps = gateway.requests.filter(({ path }) => path !== "lease").map(({ atMs }) => atMs);
  expect(gaps).toEqual([...new Set(gaps)]);
  await gateway.clock.run(stop());
});

test("retries many results at once without a listener for each", async () => {
  const ids = Array.from({ length: JOBS_MAX }, (_, at) => `j${at}`);
  const gateway = scripted((path, nth) => {
    if (path !== "lease") return { status: nth < 3 ? 503 : 200 };
    return nth === 1 ? { status: 200, body: { jobs: ids.map(gateway.job) } } : { status: 204 };
  });
  const stop = await gateway.start(async () => null);
  await gateway.clock.pass(50);
  expect(gateway.requests.filter(({ path }) => path !== "lease")).toHaveLength(ids.length);
  const [stopping] = [...gateway.signals];
  expect(stopping && getEventListeners(stopping, "abort").length).toBeLessThan(2);
  // The stop ends the delays.
  await gateway.clock.run(stop());
  expect(gateway.requests.filter(({ path }) => path !== "lease")).toHaveLength(3 * ids.length);
});

test.each([0, 3_600_000, -3_600_000])(
  "extends the lease at a third of its time, with the server's clock %i ms ahead",
  async (skewMs) => {
    const gateway = scripted((path, nth) => {
      if (path === "lease") return nth === 1 ? { status: 200, body: { jobs: [gateway.job()] } } : { status: 204 };
      return { status: 200, body: { deadline: gateway.deadline(60_000) } };
    }, skewMs);
    const aborted: unknown[] = [];
    const stop = await gateway.start(async (item) => {
      item.signal.addEventListener("abort", () => aborted.push(item.signal.reason));
      await new Promise<void>((resolve) => gateway.clock.after(150_000, resolve));
    });
    await gateway.clock.pass(160_000);
    const paths = jobPaths(gateway.requests);
    expect(paths.at(-1)).toBe("jobs/j/complete");
    expect(paths.filter((path) => path === "jobs/j/extend").length).toBeGreaterThanOrEqual(6);
    expect(paths.filter((path) => path === "jobs/j/extend").length).toBeLessThanOrEqual(8);
    expect(aborted).toEqual([]);
    await gateway.clock.run(stop());
  },
);

test("a lost lease aborts the attempt, and no further requests are sent for it", async () => {
  const gateway = scripted((path, nth) => {
    if (path === "lease") return nth === 1 ? { status: 200, body: { jobs: [gateway.job()] } } : { status: 204 };
    return { status: 409, body: { code: "lease_lost" } };
  });
  let reason: unknown = null;
  const stop = await gateway.start(
    (item) =>
      new Promise((_, reject) => {
        item.signal.addEventListener("abort", () => {
          reason = item.signal.reason;
          reject(reason);
        });
      }),
  );
  await gateway.clock.pass(300_000);
  expect(String(reason)).toContain("lease_lost");
  expect(jobPaths(gateway.requests)).toEqual(["jobs/j/extend"]);
  await gateway.clock.run(stop());
});
