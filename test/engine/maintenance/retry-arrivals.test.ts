import { expect, test } from "vitest";
import { JOBS } from "../../../src/core/model/job.ts";
import { PARKED } from "../../../src/core/model/parked-message.ts";
import type { Table } from "../../../src/core/model/table.ts";
import { composeEngine } from "../../../src/engine/engine.ts";
import { onDue } from "../../../src/engine/maintenance/due-timers.ts";
import { RetryArrivals } from "../../../src/engine/observe/retry-arrivals.ts";
import { type Due, put } from "../../../src/ports/store.ts";
import { toBase64 } from "../../../src/protocol/base64.ts";
import { encodePacket } from "../../../src/protocol/codec.ts";
import { RESULT } from "../../../src/protocol/subjects.ts";
import { Harness, idOf } from "../harness.ts";

class Recorded extends RetryArrivals {
  readonly all: [string, number][] = [];

  override record(...[retryClass, atMs]: Parameters<RetryArrivals["record"]>): void {
    this.all.push([retryClass, atMs]);
  }
}

function open() {
  const harness = new Harness();
  const arrivals = new Recorded();
  const engine = composeEngine({ ...harness.engine("c1"), arrivals });
  const nowMs = engine.world.clock.now();
  const dueOf = <T>(table: Table<T>, id: string): Due => {
    const found = harness.sim.net.store.load(table, id);
    if (!found) throw new Error(`no record ${id}`);
    return { ...found, table: table.name, dueMs: nowMs };
  };
  return { harness, engine, arrivals, nowMs, dueOf };
}

test("a job that fires after its wait is an arrival of its class", async () => {
  const { harness, engine, arrivals, nowMs, dueOf } = open();
  const id = idOf(await harness.admit(engine, { topic: "t" }));
  const found = harness.sim.net.store.load(JOBS, id);
  if (!found) throw new Error("no job");
  const wait = { retryClass: "throttled", reason: "", untilMs: nowMs, setBy: "policy" } as const;
  const waiting = { ...found.value, state: "RETRYING", dueMs: nowMs, wait } as const;
  await harness.run(engine.commit({ org: "default", puts: [put(JOBS, id, found, waiting)] }));
  await harness.pass(10);
  const firedMs = engine.world.clock.now();
  await harness.run(onDue(engine, dueOf(JOBS, id)));
  expect(arrivals.all).toEqual([["throttled", firedMs]]);
});

test("a parked message is one arrival of its class, whichever process sends it", async () => {
  const { harness, engine, arrivals, nowMs, dueOf } = open();
  const body = { kind: "alert", level: "info", message: "m" } as const;
  const base64 = toBase64(encodePacket({ traceId: "t", senderId: "s", createdAtMs: 1, body }));
  const parked = {
    subject: RESULT,
    messageId: "m1",
    base64,
    retryClass: "lock_busy",
    reason: "",
    parkedMs: nowMs,
    dueMs: nowMs,
  } as const;
  await harness.run(engine.commit({ org: "default", puts: [put(PARKED, "p1", null, parked)] }));
  const due = dueOf(PARKED, "p1");
  await harness.run(onDue(engine, due));
  await harness.run(onDue(engine, due));
  expect(arrivals.all.map(([retryClass]) => retryClass)).toEqual(["lock_busy"]);
});
