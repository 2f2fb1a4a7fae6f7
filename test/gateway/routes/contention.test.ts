import { afterEach, expect, test } from "vitest";
import { CONTENTION, type ContentionRecord } from "../../../src/core/contention/acquisition.ts";
import { encodeRecord, readRecordDocument } from "../../../src/core/contention/codec.ts";
import { predictRollout } from "../../../src/engine/observe/index.ts";
import { put } from "../../../src/ports/store.ts";
import { acquisition, record } from "../../core/contention/fixtures.ts";
import { openTestGateway, type TestGateway } from "../test-gateway.ts";

const URL = "/api/v1/contention";
let gateway: TestGateway;

afterEach(() => gateway.close());

test("lists the records of all processes, newest first, in pages, since a time", async () => {
  gateway = await openTestGateway();
  // Not past their retention, which maintenance ends.
  const fromMs = gateway.world.clock.now();
  const records = [1, 2, 3, 4].map((minute) => record({ process: minute, toMs: fromMs + minute * 60_000 }));
  for (const one of records) await write(one);
  const first = (await gateway.call("GET", `${URL}?limit=3`)).json();
  expect(first.items.map(({ process }: { process: number }) => process)).toEqual([4, 3, 2]);
  const second = (await gateway.call("GET", `${URL}?limit=3&cursor=${first.next_cursor}`)).json();
  expect(second).toMatchObject({ items: [{ process: 1 }], next_cursor: null });
  expect(readRecordDocument(first.items[0])).toEqual(records[3]);
  const late = (await gateway.call("GET", `${URL}?limit=3&since=${fromMs + 3 * 60_000}`)).json();
  expect(late.items.map(({ process }: { process: number }) => process)).toEqual([4, 3]);
  expect(late.next_cursor).toBeNull();
});

test("requires an operator or administrator of tenant `*`", async () => {
  gateway = await openTestGateway();
  const { key: root } = await gateway.keyOf("*", "operator");
  expect((await gateway.call("GET", URL, { key: root })).statusCode).toBe(200);
  for (const [tenant, role] of [
    ["*", "viewer"],
    ["acme", "operator"],
    ["acme", "admin"],
  ] as const) {
    const { key } = await gateway.keyOf(tenant, role);
    expect([tenant, role, (await gateway.call("GET", URL, { key })).statusCode]).toEqual([tenant, role, 403]);
  }
  for (const query of ["since=now", "since=-1", "limit=1000", "cursor=x"]) {
    expect([query, (await gateway.call("GET", `${URL}?${query}`, { key: root })).statusCode]).toEqual([query, 400]);
  }
});

test("predicts a rollout in the evaluation thread, and has none without a record", async () => {
  gateway = await openTestGateway({ evaluatesInThread: true });
  const { engine } = gateway;
  expect(await predictRollout(engine, "lock_busy", "fixed:2s")).toBeNull();
  const blocked = { holdMs: 5, waitMs: 600, attempts: 2, wasBlocked: true };
  const nowMs = engine.world.clock.now();
  const acquisitions = Array.from({ length: 30 }, () => acquisition({ ...blocked, arrivedMs: nowMs - 5_000 }));
  await write(record({ fromMs: nowMs - 60_000, toMs: nowMs, acquisitions }));
  const prediction = await predictRollout(engine, "run_lock.coalesce", "false");
  expect(prediction).toMatchObject({ acquisitions: 31, control: { policy: "true" }, treatment: { policy: "false" } });
  expect(prediction!.treatment.waitMs.p95).toBeGreaterThan(prediction!.control.waitMs.p95);
  expect(await predictRollout(engine, "safety_unavailable", "fixed:2s")).toBeNull();
});

async function write(one: ContentionRecord): Promise<void> {
  const { store } = gateway.world;
  const puts = [put(CONTENTION, `${one.process}-${one.toMs}`, null, encodeRecord(one))];
  await store.commit({ org: "default", atMs: one.toMs, puts, guards: [], sends: [], watch: [] });
}
