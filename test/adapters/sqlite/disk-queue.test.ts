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

const openShelf = async () => {
  const { db, writer } = await directory.open();
  const options = { ackWaitMs: 1, deliverMax: 1, inFlightMax: 1 };
  let seq = 0;
  const newSeq = () => ++seq;
  const host = { clock: directory.clock, log: directory.log, writer, options, newSeq, watch: () => {} };
  return { db, writer, diskQueue: new DiskQueue(host, SUBMIT, GROUP, { size: 0, oldestMs: null }) };
};

/** By then a batch has left, and is not yet answered. */
const untilSent = () => new Promise((resolve) => setImmediate(resolve));

describe("a message on its way to disk or back", () => {
  it("writing a message down late does not undo the delay that it was given meanwhile", async () => {
    const { db, diskQueue } = await openShelf();
    for (const order of ["delay first", "store first"]) {
      const envelope = diskQueue.newSlip(submit(order));
      const calls = [() => diskQueue.delay(envelope, 9_999), () => diskQueue.store(envelope)];
      await Promise.all((order === "delay first" ? calls : [...calls].reverse()).map((call) => call()));
    }
    expect(numberOf(db, "select count(*) from messages where visible_ms = 9999")).toBe(2);
    expect(diskQueue.size).toBe(2);
  });

  it("a message that is ended before its row is written gets none", async () => {
    const { db, diskQueue } = await openShelf();
    const envelope = diskQueue.newSlip(submit("m"));
    const stored = diskQueue.store(envelope);
    diskQueue.end(envelope);
    await stored;
    expect([numberOf(db, ROWS), diskQueue.size]).toEqual([0, 0]);
  });

  it("a message that is ended while its row is being written loses it", async () => {
    const { db, diskQueue, writer } = await openShelf();
    const envelope = diskQueue.newSlip(submit("m"));
    const ended = writer.change("deleteBlob", "none").then(() => diskQueue.end(envelope));
    await diskQueue.store(envelope);
    await ended;
    await directory.clock.pass(20);
    expect([numberOf(db, ROWS), diskQueue.size]).toEqual([0, 0]);
  });

  it("a delivery that begins while the row is being written counts", async () => {
    const { db, diskQueue } = await openShelf();
    const envelope = diskQueue.newSlip(submit("m"));
    const stored = diskQueue.store(envelope);
    await untilSent();
    envelope.attempt = 1;
    await diskQueue.begin(envelope);
    await stored;
    expect(numberOf(db, "select attempt from messages")).toBe(1);
  });

  it("a message that is ended while it is being read does not come back", async () => {
    const { db, diskQueue } = await openShelf();
    const [ended, other] = ["ended", "other"].map((id) => diskQueue.newSlip(submit(id)));
    await Promise.all([diskQueue.store(ended!), diskQueue.store(other!)]);
    const held = gate();
    directory.answersHeld = held.passed;
    const loading = diskQueue.load(10, new Set());
    await untilSent();
    diskQueue.end(ended!);
    held.open();
    expect((await loading).slips.map(({ id }) => id)).toEqual(["other"]);
    await directory.clock.pass(20);
    expect([numberOf(db, ROWS), diskQueue.size]).toEqual([1, 1]);
  });
});
