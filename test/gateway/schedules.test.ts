import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openTestGateway, type TestGateway, type TestKey } from "./test-gateway.ts";

let gateway: TestGateway;
let other: TestKey;
let submitter: TestKey;
let own: TestKey;

const SCHEDULES = "/api/v1/schedules";
const post = (url: string, body: object = {}, key = own.key) => gateway.call("POST", url, { key, body });
const get = (url: string, key = own.key) => gateway.call("GET", url, { key });
const remove = (url: string, key = own.key) => gateway.call("DELETE", url, { key });
const NIGHTLY = {
  id: "nightly",
  workflow_id: "report",
  cron: "30 2 * * *",
  time_zone: "Europe/Berlin",
  input: { region: "eu", token: "s3cret" },
};

beforeAll(async () => {
  gateway = await openTestGateway();
  other = await gateway.keyOf("acme", "admin");
  own = await gateway.keyOf("default", "operator");
  submitter = await gateway.keyOf("default", "submitter");
  await post("/api/v1/workflows", { id: "report", steps: { wait: { type: "delay", delay_sec: 30 } } });
});
afterAll(() => gateway.close());

describe("schedules", () => {
  test("applies a schedule and shows its next slots", async () => {
    const applied = (await post(SCHEDULES, NIGHTLY)).json();
    expect(applied).toMatchObject({
      result: "created",
      workflow_id: "report",
      cron: "30 2 * * *",
      time_zone: "Europe/Berlin",
      overlap: "skip",
      jitter_ms: 0,
      catch_up_ms: 3_600_000,
      paused: false,
      state: "active",
      input: { region: "eu", token: "[redacted]" },
      counts: { started: 0, skipped: 0, missed: 0, failed: 0 },
      submitted_by: own.id,
    });
    expect(new Set(applied.next_slots.map(({ slot }: { slot: string }) => slot)).size).toBe(5);
    const hours = applied.next_slots.map(({ slot }: { slot: string }) =>
      new Date(slot).toLocaleTimeString("en-GB", { timeZone: "Europe/Berlin" }),
    );
    expect(new Set(hours)).toEqual(new Set(["02:30:00"]));
    expect((await post(SCHEDULES, NIGHTLY)).json()).toMatchObject({ result: "unchanged" });
    expect((await post(SCHEDULES, { ...NIGHTLY, overlap: "queue" })).json()).toMatchObject({ result: "updated" });
    const listed = (await get(SCHEDULES)).json().items;
    expect(listed).toMatchObject([{ id: "nightly", overlap: "queue" }]);
    expect(Object.keys(listed[0])).not.toContain("input");
  });

  test("triggers a run once per key, and refuses a second one while it is open (L21)", async () => {
    const body = { idempotency_key: "now" };
    const started = (await post(`${SCHEDULES}/nightly/trigger`, body)).json();
    expect(started).toMatchObject({ workflow_id: "report", replayed: false });
    expect((await post(`${SCHEDULES}/nightly/trigger`, body)).json()).toMatchObject({
      run_id: started.run_id,
      replayed: true,
    });
    expect((await post(`${SCHEDULES}/nightly/trigger`)).json()).toMatchObject({
      status: 409,
      code: "schedule_overlap",
      run_id: started.run_id,
    });
    expect((await post(`${SCHEDULES}/nightly/trigger`, { overlap: "allow" })).statusCode).toBe(200);
    expect((await get(`/api/v1/workflow-runs/${started.run_id}`)).json()).toMatchObject({
      schedule: { id: "nightly", slot: null },
    });
    expect((await get(`${SCHEDULES}/nightly`)).json()).toMatchObject({
      last_start: { cause: "trigger", slot: null },
      counts: { started: 2 },
      open_runs: [started.run_id, expect.any(String)],
    });
  });

  test("pauses, explains and resumes", async () => {
    expect((await post(`${SCHEDULES}/nightly/pause`, { reason: "migration" })).json()).toMatchObject({
      paused: true,
      state: "paused",
      next_slots: [],
    });
    expect((await get(`${SCHEDULES}/nightly/explain`)).json()).toMatchObject({
      state: "paused",
      reasons: [{ unblocks: "cordum schedule resume nightly" }],
    });
    expect((await post(`${SCHEDULES}/nightly/resume`)).json()).toMatchObject({ paused: false, state: "active" });
    expect((await get(`${SCHEDULES}/nightly/explain`)).json().reasons[0].reason).toMatch(/^the next slot is 20/);
  });

  test("backfills a past range, one at a time", async () => {
    const range = { from: "2026-01-01T00:00:00Z", until: "2026-01-03T12:00:00Z" };
    const url = `${SCHEDULES}/nightly/backfill`;
    expect((await post(url, range)).json()).toMatchObject({
      backfill: { slots: 3, started: 0, next_slot: "2026-01-01T01:30:00.000Z", pace_ms: 1_000, started_by: own.id },
    });
    expect((await post(url, range)).json()).toMatchObject({ status: 409, code: "backfill_active" });
    expect((await remove(url)).json()).toMatchObject({ backfill: null });
    expect((await post(url, { ...range, until: "2999-01-01T00:00:00Z" })).json()).toMatchObject({ status: 400 });
    expect((await post(url, { from: "soon", until: "later" })).statusCode).toBe(400);
  });

  test.each<[string, object]>([
    ["matches no date", { cron: "0 0 30 2 *" }],
    ["Invalid value for minute: 61", { cron: "61 * * * *" }],
    ["known are `@hourly`", { cron: "@reboot" }],
    ["is not a time zone of the IANA database", { time_zone: "Mars/Phobos" }],
    ["workflow `nope` does not exist", { workflow_id: "nope" }],
    ["the minimum is `10s`", { cron: undefined, time_zone: undefined, every: "5s" }],
    ["`time_zone` applies to `cron` only", { cron: undefined, every: "1h" }],
    ["either `cron` or `every`", { every: "1h" }],
    ["only 5m apart", { jitter_ms: 3_600_000, cron: "*/5 * * * *" }],
    ["overlap", { overlap: "maybe" }],
    ["did you mean `catch_up_ms`", { catch_up: 5 }],
    ["the limit is 32768", { input: Array.from({ length: 40 }, () => "x".repeat(1_000)) }],
    ["1 to 64 of the characters", { id: "a b" }],
  ])("rejects a document: %s", async (problem, fields) => {
    const refused = await post(SCHEDULES, { ...NIGHTLY, id: "bad", ...fields });
    expect(refused.json()).toMatchObject({ status: 400, code: "invalid_schedule" });
    expect(refused.json().detail).toContain(problem);
    expect((await get(`${SCHEDULES}/bad`)).statusCode).toBe(404);
  });

  test("other tenants see no schedule, and submitters cannot change one", async () => {
    for (const url of [`${SCHEDULES}/nightly`, `${SCHEDULES}/nightly/explain`]) {
      expect((await get(url, other.key)).json()).toMatchObject({ status: 404, code: "schedule_not_found" });
    }
    expect((await post(`${SCHEDULES}/nightly/trigger`, {}, other.key)).statusCode).toBe(404);
    expect((await get(SCHEDULES, other.key)).json().items).toEqual([]);
    for (const action of ["pause", "resume", "trigger"]) {
      expect((await post(`${SCHEDULES}/nightly/${action}`, {}, submitter.key)).statusCode).toBe(403);
    }
    expect((await post(SCHEDULES, NIGHTLY, submitter.key)).statusCode).toBe(403);
    expect((await remove(`${SCHEDULES}/nightly`, submitter.key)).statusCode).toBe(403);
  });

  test("deletes a schedule; each action is in the audit log", async () => {
    expect((await remove(`${SCHEDULES}/nightly`)).json()).toEqual({ id: "nightly", deleted: true });
    expect((await remove(`${SCHEDULES}/nightly`)).statusCode).toBe(404);
    await expect
      .poll(async () => {
        const { items } = (await get("/api/v1/audit?limit=100")).json();
        const lines = items.filter(({ kind }: { kind: string }) => kind === "schedule");
        return lines.map(({ what }: { what: string }) => what).reverse();
      })
      .toEqual(
        expect.arrayContaining([
          "applied",
          "triggered",
          "paused",
          "resumed",
          "backfill started",
          "backfill cancelled",
          "deleted",
        ]),
      );
  });
});
