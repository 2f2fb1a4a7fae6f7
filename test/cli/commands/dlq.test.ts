import { afterEach, describe, expect, test } from "vitest";
import { startDemoWorker } from "../../../src/cli/up/demo.ts";
import { openTestGateway } from "../../gateway/test-gateway.ts";
import { type FakeGateway, type FakeResponse, fakeTime, startFake } from "../fake.ts";
import { cordum } from "../run.ts";

let fake: FakeGateway;

afterEach(() => fake?.close());

const ALL = ["dlq", "retry", "--all"];
const REFUSED = { id: "l1", code: "job_gone", error: "it is gone" };

interface Body {
  readonly limit: number;
  readonly cursor?: string;
}

/** Serves `count` dead letters in pages; `change` replaces the response to the page at a position. */
function startBulk(count: number, change: (from: number) => FakeResponse | null = () => null): Promise<FakeGateway> {
  return startFake(({ body }) => {
    const { limit, cursor } = body as Body;
    const from = Number(cursor ?? 0);
    const to = Math.min(count, from + limit);
    const page = {
      action: "retry",
      dry_run: false,
      matched: count - from,
      done: to - from,
      rejected: [],
      stopped: null,
    };
    const changed = change(from);
    if (changed !== null && changed.status !== 200) return changed;
    const next_cursor = to < count ? String(to) : null;
    return { status: 200, body: { ...page, sample: [], next_cursor, ...(changed?.body as object) } };
  });
}

const bodies = () => fake.requests.map(({ body }) => body as Body);

describe("dlq retry of a query", () => {
  test("limits the rate and keeps the filter on every page", async () => {
    fake = await startBulk(25);
    const { io, pauses } = fakeTime();
    const ran = await cordum([...ALL, "--topic", "pay", "--rate", "10/s", "--json"], fake.env, "", io);
    expect(ran.exitCode).toBe(0);
    expect(pauses).toEqual([1_000, 1_000]);
    expect(bodies()).toMatchObject([
      { action: "retry", topic: "pay", limit: 10 },
      { topic: "pay", cursor: "10" },
      { topic: "pay", cursor: "20" },
    ]);
    expect(JSON.parse(ran.out)).toMatchObject({ matched: 25, done: 25, rejected: [], stopped: null, next: null });
    fake.close();
    fake = await startBulk(2);
    const slower = fakeTime();
    await cordum([...ALL, "--rate", "30/m"], fake.env, "", slower.io);
    expect(slower.pauses).toEqual([2_000]);
  });

  test("does not catch up after a slow response", async () => {
    const { io, pauses, pass } = fakeTime();
    fake = await startBulk(40, (from) => {
      pass(from === 10 ? 5_000 : 100);
      return null;
    });
    await cordum([...ALL, "--rate", "10/s"], fake.env, "", io);
    expect(pauses).toEqual([900, 900]);
  });

  test("stops at the maximum and prints the command that continues", async () => {
    fake = await startBulk(100_000);
    const ran = await cordum([...ALL, "--max", "45", "--json"], fake.env, "", fakeTime().io);
    expect(bodies().map(({ limit }) => limit)).toEqual([10, 10, 10, 10, 5]);
    expect(JSON.parse(ran.out)).toMatchObject({ done: 45, next: "cordum dlq retry --all --cursor 45" });
  });

  test("requests a page again after a restart, and prints the cursor if it takes too long", async () => {
    let failures = 3;
    const restarting: FakeResponse = { status: 503, body: { code: "store_unavailable", detail: "not now" } };
    fake = await startBulk(30, (from) => (from === 10 && failures-- > 0 ? restarting : null));
    const ran = await cordum([...ALL, "--json"], fake.env, "", fakeTime().io);
    expect(JSON.parse(ran.out)).toMatchObject({ done: 30, stopped: null });
    expect(bodies().filter(({ cursor }) => cursor === "10")).toHaveLength(4);
    fake.close();
    fake = await startBulk(30, (from) => (from === 10 ? restarting : null));
    const stopped = await cordum(["dlq", "drop", "--error", "it's"], fake.env, "", fakeTime().io);
    expect(stopped.exitCode).toBe(6);
    expect(stopped.err).toContain("10 dead letters deleted, 0 rejected, 30 matched\n");
    expect(stopped.err).toContain("next: cordum dlq drop --error 'it'\\''s' --cursor 10\n");
  });

  test("continues after rejected dead letters and stops at the run limit", async () => {
    fake = await startBulk(30, (from) => (from === 0 ? { status: 200, body: { done: 9, rejected: [REFUSED] } } : null));
    const ran = await cordum(ALL, fake.env, "", fakeTime().io);
    expect(ran).toMatchObject({ exitCode: 4, out: "REJECTED  ERROR\nl1        it is gone\n" });
    expect(ran.err).toContain("29 dead letters redriven, 1 rejected, 30 matched\nnext: cordum dlq show l1\n");
    fake.close();
    const full = { ...REFUSED, code: "too_many_runs", error: "retry later" };
    fake = await startBulk(30, () => ({ status: 200, body: { done: 0, stopped: full, next_cursor: "0,9," } }));
    const stopped = await cordum(ALL, fake.env, "", fakeTime().io);
    expect(stopped.exitCode).toBe(6);
    expect(stopped.err).toContain("cordum: stopped: retry later\n");
    expect(stopped.err).toContain("next: cordum dlq retry --all --cursor 0,9,\n");
  });

  test("shows progress on a terminal only", async () => {
    fake = await startBulk(50);
    const interactive = await cordum(ALL, fake.env, "", { ...fakeTime().io, isInteractive: true });
    expect(interactive.err).toContain("\r30 of 50 redriven, 0 rejected\r");
    const piped = await cordum(ALL, fake.env, "", fakeTime().io);
    expect(piped.err).not.toContain("\r");
  });
});

test("redrives the same jobs against a gateway", async () => {
  const gateway = await openTestGateway();
  const stopWorker = await startDemoWorker(gateway.world);
  const env = { CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) };
  const submit = async () => {
    const ran = await cordum(["job", "submit", "demo.broken", "--wait", "--json"], env);
    return JSON.parse(ran.out).job_id as string;
  };
  const ids = [await submit(), await submit()];
  const dry = await cordum(["dlq", "retry", "--topic", "demo.broken", "--dry-run", "--json"], env);
  expect(JSON.parse(dry.out)).toMatchObject({ matched: 2, done: 0, sample: [{ id: ids[0] }, { id: ids[1] }] });
  const ran = await cordum([...ALL, "--rate", "1000/s", "--json"], env);
  expect(ran.exitCode).toBe(0);
  expect(JSON.parse(ran.out)).toMatchObject({ matched: 2, done: 2, rejected: [] });
  await gateway.ended(4);
  const job = JSON.parse((await cordum(["job", "get", ids[0] ?? "", "--json"], env)).out);
  expect(job.history.map(({ event }: { event: string }) => event)).toEqual(["failed", "revived", "failed"]);
  const one = await cordum(["dlq", "retry", ids[0] ?? ""], env);
  expect(one.out).toMatch(new RegExp(`^job ${ids[0]} redriven, state [A-Z]+\n$`));
  await stopWorker();
  await gateway.close();
});
