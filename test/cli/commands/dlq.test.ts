import { afterEach, describe, expect, test } from "vitest";
import { startDemoWorker } from "../../../src/cli/up/demo.ts";
import { openTestGateway } from "../../gateway/test-gateway.ts";
import { type FakeGateway, type FakeRequest, type FakeResponse, fakeTime, startFake } from "../fake.ts";
import { cordum } from "../run.ts";

let fake: FakeGateway;

afterEach(() => fake?.close());

const ALL = ["dlq", "retry", "--all"];

/** Letters `l0`, `l1` … in pages as asked for, and an answer for each that is tried again. */
function startLetters(count: number, retried: (id: string) => FakeResponse): Promise<FakeGateway> {
  return startFake(({ method, path }: FakeRequest) => {
    if (method === "POST") return retried(path.split("/")[2] ?? "");
    const query = new URL(path, "http://x").searchParams;
    const from = Number(query.get("cursor") ?? 0);
    const to = Math.min(count, from + Number(query.get("limit")));
    const items = Array.from({ length: to - from }, (_, at) => ({ id: `l${from + at}` }));
    return { status: 200, body: { items, next_cursor: to < count ? String(to) : null } };
  });
}

const good = (id: string): FakeResponse => ({ status: 200, body: { job_id: id, state: "SCHEDULED" } });
const tried = () => fake.requests.filter(({ method }) => method === "POST").map(({ path }) => path);

describe("dlq retry --all", () => {
  test("no faster than asked", async () => {
    fake = await startLetters(4, good);
    const { io, pauses } = fakeTime();
    const ran = await cordum([...ALL, "--rate", "10/s", "--json"], fake.env, "", io);
    expect(ran.exitCode).toBe(0);
    expect(pauses).toEqual([100, 100, 100]);
    const document = JSON.parse(ran.out);
    expect(document).toMatchObject({ refused: [], left: 0, more: false, stopped: null, next: null });
    expect(document.retried[3]).toEqual({ id: "l3", job_id: "l3", state: "SCHEDULED" });
    fake.close();
    fake = await startLetters(2, good);
    const slower = fakeTime();
    await cordum([...ALL, "--rate", "30/m"], fake.env, "", slower.io);
    expect(slower.pauses).toEqual([2_000]);
  });

  test("what a slow answer cost is not made up for", async () => {
    const { io, pauses, pass } = fakeTime();
    fake = await startLetters(5, (id) => {
      pass(id === "l1" ? 5_000 : 10);
      return good(id);
    });
    await cordum([...ALL, "--rate", "10/s"], fake.env, "", io);
    expect(pauses).toEqual([90, 90, 90]);
  });

  test("what fails again meanwhile is not tried for ever: the list has an end, and a bound", async () => {
    fake = await startLetters(100_000, good);
    const { io } = fakeTime();
    const ran = await cordum([...ALL, "--max", "450", "--json"], fake.env, "", io);
    expect(tried()).toHaveLength(450);
    expect(fake.requests.filter(({ method }) => method === "GET")).toHaveLength(3);
    expect(JSON.parse(ran.out)).toMatchObject({ more: true, next: "cordum dlq retry --all" });
    expect(ran.err).toContain("there are more than were listed");
  });

  test("one that cannot be tried is passed over; a refusal about everything stops it; both are told", async () => {
    const answers: Readonly<Record<string, FakeResponse>> = {
      l1: { status: 409, body: { code: "job_gone", title: "gone", detail: "it is gone" } },
      l2: { status: 404, body: { code: "dead_letter_not_found", title: "none", detail: "dropped meanwhile" } },
      l4: { status: 503, body: { code: "store_unavailable", title: "later", detail: "not now", retry_after_ms: 9 } },
    };
    fake = await startLetters(6, (id) => answers[id] ?? good(id));
    const ran = await cordum([...ALL, "--json"], fake.env, "", fakeTime().io);
    expect(ran.exitCode).toBe(6);
    expect(tried()).toHaveLength(5);
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
    expect(ran.err).toContain("2 dead letters tried again, 2 refused, 2 left alone");
  });

  test("a server that has no such route stops it, too; refused ones alone end with 4", async () => {
    fake = await startLetters(3, () => ({ status: 404, body: {} }));
    expect(await cordum(ALL, fake.env, "", fakeTime().io)).toMatchObject({ exitCode: 3, out: "" });
    expect(tried()).toHaveLength(1);
    fake.close();
    fake = await startLetters(1, () => ({ status: 409, body: { code: "unreadable", detail: "bad bytes" } }));
    const ran = await cordum(ALL, fake.env, "", fakeTime().io);
    expect(ran).toMatchObject({ exitCode: 4, out: "DEAD LETTER  STATE    WHAT\nl0           refused  bad bytes\n" });
    expect(ran.err).toContain("next: cordum dlq show l0\n");
  });

  test("progress is for those who watch", async () => {
    fake = await startLetters(30, good);
    const watched = await cordum(ALL, fake.env, "", { ...fakeTime().io, isInteractive: true });
    expect(watched.err).toContain("\r20 of 30\r");
    const unwatched = await cordum(ALL, fake.env, "", fakeTime().io);
    expect(unwatched.err).not.toContain("\r");
  });
});

test("against a control plane: the same jobs live on", async () => {
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
  expect(one.out).toMatch(new RegExp(`^job ${ids[0]} is [A-Z]+\n$`));
  await stopWorker();
  await gateway.close();
});
