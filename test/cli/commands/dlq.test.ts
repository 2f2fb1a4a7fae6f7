import { afterEach, describe, expect, test } from "vitest";
import { startDemoWorker } from "../../../src/cli/up/demo.ts";
import { openTestGateway } from "../../gateway/test-gateway.ts";
import { type FakeGateway, type FakeRequest, type FakeResponse, fakeTime, startFake } from "../fake.ts";
import { cordum } from "../run.ts";

let fake: FakeGateway;

afterEach(() => fake?.close());

const ALL = ["dlq", "retry", "--all"];

/** Serves dead letters `l0`, `l1` … in pages, and a response for each retry. */
function startDeadLetters(count: number, retried: (id: string) => FakeResponse): Promise<FakeGateway> {
  return startFake(({ method, path }: FakeRequest) => {
    if (method === "POST") return retried(path.split("/")[2] ?? "");
    const query = new URL(path, "http://x").searchParams;
    const from = Number(query.get("cursor") ?? 0);
    const to = Math.min(count, from + Number(query.get("limit")));
    const items = Array.from({ length: to - from }, (_, at) => ({ id: `l${from + at}` }));
    return { status: 200, body: { items, next_cursor: to < count ? String(to) : null } };
  });
}

const scheduled = (id: string): FakeResponse => ({ status: 200, body: { job_id: id, state: "SCHEDULED" } });
const retries = () => fake.requests.filter(({ method }) => method === "POST").map(({ path }) => path);

describe("dlq retry --all", () => {
  test("limits the rate", async () => {
    fake = await startDeadLetters(4, scheduled);
    const { io, pauses } = fakeTime();
    const ran = await cordum([...ALL, "--rate", "10/s", "--json"], fake.env, "", io);
    expect(ran.exitCode).toBe(0);
    expect(pauses).toEqual([100, 100, 100]);
    const document = JSON.parse(ran.out);
    expect(document).toMatchObject({ refused: [], left: 0, more: false, stopped: null, next: null });
    expect(document.retried[3]).toEqual({ id: "l3", job_id: "l3", state: "SCHEDULED" });
    fake.close();
    fake = await startDeadLetters(2, scheduled);
    const slower = fakeTime();
    await cordum([...ALL, "--rate", "30/m"], fake.env, "", slower.io);
    expect(slower.pauses).toEqual([2_000]);
  });

  test("does not catch up after a slow response", async () => {
    const { io, pauses, pass } = fakeTime();
    fake = await startDeadLetters(5, (id) => {
      pass(id === "l1" ? 5_000 : 10);
      return scheduled(id);
    });
    await cordum([...ALL, "--rate", "10/s"], fake.env, "", io);
    expect(pauses).toEqual([90, 90, 90]);
  });

  test("reads the list once, up to the maximum", async () => {
    fake = await startDeadLetters(100_000, scheduled);
    const { io } = fakeTime();
    const ran = await cordum([...ALL, "--max", "450", "--json"], fake.env, "", io);
    expect(retries()).toHaveLength(450);
    expect(fake.requests.filter(({ method }) => method === "GET")).toHaveLength(3);
    expect(JSON.parse(ran.out)).toMatchObject({ more: true, next: "cordum dlq retry --all" });
    expect(ran.err).toContain("more dead letters remain");
  });

  test("skips a dead letter that is rejected, and stops on other errors", async () => {
    const answers: Readonly<Record<string, FakeResponse>> = {
      l1: { status: 409, body: { code: "job_gone", title: "gone", detail: "it is gone" } },
      l2: { status: 404, body: { code: "dead_letter_not_found", title: "none", detail: "dropped meanwhile" } },
      l4: { status: 503, body: { code: "store_unavailable", title: "later", detail: "not now", retry_after_ms: 9 } },
    };
    fake = await startDeadLetters(6, (id) => answers[id] ?? scheduled(id));
    const ran = await cordum([...ALL, "--json"], fake.env, "", fakeTime().io);
    expect(ran.exitCode).toBe(6);
    expect(retries()).toHaveLength(5);
    expect(JSON.parse(ran.out)).toMatchObject({
      retried: [{ id: "l0" }, { id: "l3" }],
      refused: [
        { id: "l1", code: "job_gone" },
        { id: "l2", code: "dead_letter_not_found" },
      ],
      left: 2,
      stopped: { code: "store_unavailable", retry_after_ms: 9 },
      exit_code: 6,
      next: "cordum doctor",
    });
    expect(ran.err).toContain("2 dead letters redriven, 2 rejected, 2 skipped");
  });

  test("stops on a missing route; rejected dead letters alone exit with 4", async () => {
    fake = await startDeadLetters(3, () => ({ status: 404, body: {} }));
    expect(await cordum(ALL, fake.env, "", fakeTime().io)).toMatchObject({ exitCode: 3, out: "" });
    expect(retries()).toHaveLength(1);
    fake.close();
    fake = await startDeadLetters(1, () => ({ status: 409, body: { code: "unreadable", detail: "bad bytes" } }));
    const ran = await cordum(ALL, fake.env, "", fakeTime().io);
    expect(ran).toMatchObject({
      exitCode: 4,
      out: "DEAD LETTER  STATE     DETAIL\nl0           rejected  bad bytes\n",
    });
    expect(ran.err).toContain("next: cordum dlq show l0\n");
  });

  test("shows progress on a terminal only", async () => {
    fake = await startDeadLetters(30, scheduled);
    const interactive = await cordum(ALL, fake.env, "", { ...fakeTime().io, isInteractive: true });
    expect(interactive.err).toContain("\r20 of 30\r");
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
  const ran = await cordum([...ALL, "--rate", "1000/s", "--json"], env);
  expect(ran.exitCode).toBe(0);
  expect(JSON.parse(ran.out).retried.map(({ job_id }: { job_id: string }) => job_id)).toEqual(ids.toReversed());
  await gateway.ended(4);
  const job = JSON.parse((await cordum(["job", "get", ids[0] ?? "", "--json"], env)).out);
  expect(job.history.map(({ event }: { event: string }) => event)).toEqual(["failed", "revived", "failed"]);
  const one = await cordum(["dlq", "retry", ids[0] ?? ""], env);
  expect(one.out).toMatch(new RegExp(`^job ${ids[0]} redriven, state [A-Z]+\n$`));
  await stopWorker();
  await gateway.close();
});
