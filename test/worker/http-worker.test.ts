import { expect, test } from "vitest";
import { startHttpWorker } from "../../src/adapters/http/http-worker.ts";
import type { WorkItem } from "../../src/worker/item.ts";
import { ManualClock } from "../contract/manual-clock.ts";

/** A gateway that gives out one job and answers as it is told; what was said to it is kept. */
function play(answers: (path: string, nth: number) => { status: number; body?: object }, skewMs = 0) {
  const clock = new ManualClock();
  const said: { readonly path: string; readonly atMs: number; readonly body: Record<string, unknown> }[] = [];
  const date = () => new Date(clock.now() + skewMs).toUTCString();
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    const path = String(url).replace(/.*\/worker\//, "");
    const nth = said.filter((one) => one.path === path).length + 1;
    said.push({ path, atMs: clock.now(), body: JSON.parse(String(init?.body)) });
    const { status, body } = answers(path, nth);
    // A poll that finds nothing waits until its client goes.
    if (status === 204) return new Promise<Response>((_, reject) => init?.signal?.addEventListener("abort", reject));
    return new Response(JSON.stringify(body ?? {}), { status, headers: { date: date() } });
  };
  const random = { next: () => 0.5, id: () => "id" };
  const log = { write: () => undefined };
  const start = (handle: (item: WorkItem) => Promise<unknown>) =>
    startHttpWorker(
      { clock, random, fetch, log },
      { url: "http://gateway/" },
      { id: "w", topics: ["t"], concurrency: 1, handle },
    );
  const deadline = (ms: number) => new Date(clock.now() + skewMs + ms).toISOString();
  const job = () => ({
    ...{ job_id: "j", attempt: 1, lease_id: "l", topic: "t", tenant_id: "default", input: 7, labels: {} },
    ...{ constraints: null, traceparent: null, deadline: deadline(60_000) },
  });
  return { clock, said, start, job, deadline };
}

const pathsOf = (said: readonly { readonly path: string }[]) =>
  said.map(({ path }) => path).filter((path) => path !== "lease");

test("a result is said until it was heard; the server may be away for a while", async () => {
  const stage = play((path, nth) => {
    if (path === "lease")
      return nth === 2 ? { status: 200, body: { jobs: [stage.job()] } } : { status: nth === 1 ? 503 : 204 };
    return { status: nth < 4 ? 503 : 200 };
  });
  const stop = await stage.start(async (item) => ({ got: item.input }));
  await stage.clock.pass(60_000);
  expect(pathsOf(stage.said)).toEqual(Array.from({ length: 4 }, () => "jobs/j/complete"));
  expect(stage.said.find(({ path }) => path === "jobs/j/complete")?.body).toEqual({
    lease_id: "l",
    result: { got: 7 },
  });
  const gaps = stage.said.filter(({ path }) => path !== "lease").map(({ atMs }) => atMs);
  expect(gaps).toEqual([...new Set(gaps)]);
  await stage.clock.run(stop());
});

test.each([0, 3_600_000, -3_600_000])(
  "long work asks at a third of its time, the server's clock being %i ms ahead",
  async (skewMs) => {
    const stage = play((path, nth) => {
      if (path === "lease") return nth === 1 ? { status: 200, body: { jobs: [stage.job()] } } : { status: 204 };
      return { status: 200, body: { deadline: stage.deadline(60_000) } };
    }, skewMs);
    const aborted: unknown[] = [];
    const stop = await stage.start(async (item) => {
      item.signal.addEventListener("abort", () => aborted.push(item.signal.reason));
      await new Promise<void>((resolve) => stage.clock.after(150_000, resolve));
    });
    await stage.clock.pass(160_000);
    const asked = pathsOf(stage.said);
    expect(asked.at(-1)).toBe("jobs/j/complete");
    expect(asked.filter((path) => path === "jobs/j/extend").length).toBeGreaterThanOrEqual(6);
    expect(asked.filter((path) => path === "jobs/j/extend").length).toBeLessThanOrEqual(8);
    expect(aborted).toEqual([]);
    await stage.clock.run(stop());
  },
);

test("a lost lease aborts the work, and nothing more is said about it", async () => {
  const stage = play((path, nth) => {
    if (path === "lease") return nth === 1 ? { status: 200, body: { jobs: [stage.job()] } } : { status: 204 };
    return { status: 409, body: { code: "lease_lost" } };
  });
  let reason: unknown = null;
  const stop = await stage.start(
    (item) =>
      new Promise((_, reject) => {
        item.signal.addEventListener("abort", () => {
          reason = item.signal.reason;
          reject(reason);
        });
      }),
  );
  await stage.clock.pass(300_000);
  expect(String(reason)).toContain("lease_lost");
  expect(pathsOf(stage.said)).toEqual(["jobs/j/extend"]);
  await stage.clock.run(stop());
});
