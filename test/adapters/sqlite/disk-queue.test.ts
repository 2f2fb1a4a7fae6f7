import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DiskQueue } from "../../../src/adapters/sqlite/bus/disk-queue.ts";
import { SUBMIT } from "../../../src/protocol/subjects.ts";
import { GROUP, gate, submit } from "../../contract/bus/bus.subject.ts";
import { numberOf, TestDirectory } from "./directory.ts";

const ROWS = "select count(*) from messages";

let directory: TestDirectory;
beforeEach(() => {
  directory = new TestDirectory();
});
afterEach(() => directory.close());

const openQueue = async () => {
  const { db, writer, tables } = await directory.open();
  const options = { ackWaitMs: 1, deliverMax: 1, inFlightMax: 1 };
  let seq = 0;
  const newSeq = () => ++seq;
  const { clock, log } = directory;
  const context = { clock, log, writer, rows: tables.messages, options, newSeq, afterGrace: () => {} };
  return { db, writer, diskQueue: new DiskQueue(context, SUBMIT, GROUP, { size: 0, oldestMs: null }) };
};

/** A batch is in flight and not settled. */
const untilSent = () => new Promise((resolve) => setImmediate(resolve));

describe("the disk queue", () => {
  it("a late store does not overwrite a delay", async () => {
    const { db, diskQueue } = await openQueue();
    for (const order of ["delay first", "store first"]) {
      const envelope = diskQueue.newEnvelope(submit(order));
      const calls = [() => diskQueue.delay(envelope, 9_999), () => diskQueue.store(envelope)];
      await Promise.all((order === "delay first" ? calls : [...calls].reverse()).map((call) => call()));
    }
    expect(numberOf(db, "select count(*) from messages where visible_ms = 9999")).toBe(2);
    expect(diskQueue.size).toBe(2);
  });

  it("writes no row for a message that ended before its batch", async () => {
    const { db, diskQueue } = await openQueue();
    const envelope = diskQueue.newEnvelope(submit("m"));
    const stored = diskQueue.store(envelope);
    diskQueue.end(envelope);
    await stored;
    expect([numberOf(db, ROWS), diskQueue.size]).toEqual([0, 0]);
  });

  it("deletes the row of a message that ends during the write", async () => {
    const { db, diskQueue, writer } = await openQueue();
    const envelope = diskQueue.newEnvelope(submit("m"));
    const ended = writer.write("tables", () => {}).then(() => diskQueue.end(envelope));
    await diskQueue.store(envelope);
    await ended;
    await directory.clock.pass(20);
    expect([numberOf(db, ROWS), diskQueue.size]).toEqual([0, 0]);
  });

  it("counts a delivery that begins during the write", async () => {
    const { db, diskQueue } = await openQueue();
    const envelope = diskQueue.newEnvelope(submit("m"));
    const stored = diskQueue.store(envelope);
    await untilSent();
    envelope.attempt = 1;
    await diskQueue.begin(envelope);
    await stored;
    expect(numberOf(db, "select attempt from messages")).toBe(1);
  });

  it("does not load a message that ends during the load", async () => {
    const { db, diskQueue } = await openQueue();
    const [ended, other] = ["ended", "other"].map((id) => diskQueue.newEnvelope(submit(id)));
    await Promise.all([diskQueue.store(ended!), diskQueue.store(other!)]);
    const held = gate();
    directory.settlementHeld = held.passed;
    const loading = diskQueue.load(10, new Set());
    await untilSent();
    diskQueue.end(ended!);
    held.open();
    expect((await loading).envelopes.map(({ id }) => id)).toEqual(["other"]);
    await directory.clock.pass(20);
    expect([numberOf(db, ROWS), diskQueue.size]).toEqual([1, 1]);
  });
});
