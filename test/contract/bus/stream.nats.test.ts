import { DiscardPolicy, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openNatsBus } from "../../../src/adapters/nats/bus.ts";
import { NEEDS } from "../../../src/adapters/nats/connection.ts";
import { DURABLE_SUBJECTS, ENGINE_GROUP, RESULT, SCHEDULER_GROUP, SUBMIT } from "../../../src/protocol/subjects.ts";
import { startNats } from "../../servers/start.ts";
import { ACK, finish, Recorder, submit } from "./bus.subject.ts";
import { NatsBench, type NatsSpace, RecordedLog } from "./nats-harness.ts";

// The stream, its consumers, and the checks of the server at the start.
let bench: NatsBench;
let space: NatsSpace;

beforeAll(async () => {
  bench = await NatsBench.open(await startNats());
});
afterEach(() => space?.close());
afterAll(() => bench?.close());

const MINUTE_NS = 60_000_000_000;

describe("the stream", () => {
  it("holds the durable subjects in files, with interest retention", async () => {
    space = bench.space();
    await space.enter();
    const { config } = await bench.manager.streams.info(space.stream);
    expect(config).toMatchObject({
      subjects: DURABLE_SUBJECTS.map((subject) => space.subject(subject)),
      storage: StorageType.File,
      retention: RetentionPolicy.Interest,
      discard: DiscardPolicy.New,
      duplicate_window: 2 * MINUTE_NS,
      max_age: 0,
    });
    expect(config.max_bytes).toBeGreaterThan(0);
    expect(config.max_msgs).toBeGreaterThan(0);
  });

  it("is created once by processes that start concurrently", async () => {
    space = bench.space();
    const buses = await Promise.all([space.enter(), space.enter(), space.enter()]);
    await Promise.all(buses.map((bus) => bus.publish(submit("job-1"))));
    expect((await space.state()).lastSeq).toBe(1);
  });

  it("is updated where that is safe; limits set by an operator are kept", async () => {
    space = bench.space();
    await bench.manager.streams.add({
      name: space.stream,
      subjects: [space.subject(SUBMIT)],
      retention: RetentionPolicy.Interest,
      storage: StorageType.File,
      max_msgs: 77,
    });
    await space.enter();
    const { config } = await bench.manager.streams.info(space.stream);
    expect(config).toMatchObject({ discard: DiscardPolicy.New, duplicate_window: 2 * MINUTE_NS, max_msgs: 77 });
    expect(config.subjects).toHaveLength(DURABLE_SUBJECTS.length);
  });

  it.each([
    ["another retention", { retention: RetentionPolicy.Limits }, /retention `limits`/],
    ["memory storage", { storage: StorageType.Memory }, /does not use file storage/],
  ])("with %s is rejected with instructions", async (_, wrong, reason) => {
    space = bench.space();
    await bench.manager.streams.add({
      name: space.stream,
      subjects: [space.subject(SUBMIT)],
      retention: RetentionPolicy.Interest,
      storage: StorageType.File,
      ...wrong,
    });
    await expect(space.enter()).rejects.toThrow(reason);
    await expect(space.enter()).rejects.toMatchObject({ code: "BUS_REFUSED" });
  });

  it("is rejected if it captures dispatch subjects; another stream on them causes a warning", async () => {
    space = bench.space();
    const base = { retention: RetentionPolicy.Interest, storage: StorageType.File };
    await bench.manager.streams.add({ ...base, name: space.stream, subjects: [space.subject("job.>")] });
    await expect(space.enter()).rejects.toThrow(/job\.>/);
    await bench.manager.streams.delete(space.stream);
    await bench.manager.streams.add({ ...base, name: `${space.stream}_x`, subjects: [space.subject("job.demo.*")] });
    const bus = await space.enter();
    expect(bus.server.warnings.join()).toContain(`${space.stream}_x`);
  });
});

describe("consumers", () => {
  it("exist before the first `consume`, so that earlier messages wait for it", async () => {
    space = bench.space();
    const groups = [
      { subject: SUBMIT, group: SCHEDULER_GROUP },
      { subject: RESULT, group: ENGINE_GROUP },
    ];
    const gateway = await space.enter({ groups });
    await Promise.all([gateway.publish(submit("job-1")), gateway.publish(finish("res-1"))]);
    const control = await space.enter({ groups });
    const seen = new Recorder<string>();
    const handler = async ({ id }: { id: string }) => {
      seen.add(id);
      return ACK;
    };
    await control.consume(SUBMIT, SCHEDULER_GROUP, handler);
    await control.consume(RESULT, ENGINE_GROUP, handler);
    await seen.count(2);
    expect([...seen.seen].sort()).toEqual(["job-1", "res-1"]);
  });

  it("follow the settings", async () => {
    space = bench.space();
    const group = { subject: SUBMIT, group: "g" };
    await space.enter({ groups: [group], ackWaitMs: 10_000, deliverMax: 50, inFlightMax: 7 });
    const name = "g_sys_job_submit";
    const before = await bench.manager.consumers.info(space.stream, name);
    expect(before.config).toMatchObject({ ack_wait: 10_000_000_000, max_deliver: 50, ack_policy: "explicit" });
    // Above `inFlightMax`: delayed messages must not use up the capacity of handlers.
    expect(before.config.max_ack_pending).toBeGreaterThan(7);
    await space.enter({ groups: [group], ackWaitMs: 20_000, deliverMax: 60 });
    const after = await bench.manager.consumers.info(space.stream, name);
    expect(after.config).toMatchObject({ ack_wait: 20_000_000_000, max_deliver: 60 });
  });

  it("are rejected for invalid group names and subjects that are not durable", async () => {
    space = bench.space();
    const bus = await space.enter();
    await expect(bus.consume(SUBMIT, "a.b", async () => ACK)).rejects.toThrow(/invalid group name/);
    await expect(bus.consume("sys.heartbeat", "g", async () => ACK)).rejects.toThrow(/not a durable subject/);
  });

  it("L3: logs a message that reaches the broker's delivery limit", async () => {
    space = bench.space();
    const bus = await space.enter({ deliverMax: 2 });
    const logged = space.log.next("bus_delivery_cap_reached");
    await bus.consume(SUBMIT, "g", async () => ({ kind: "nak" }));
    await bus.publish(submit("job-1"));
    await logged;
    expect((await space.state()).messages).toBe(1);
  });
});

describe("the server", () => {
  it("is described with its version and limitations", async () => {
    space = bench.space();
    const { server } = await space.enter();
    expect(server.version).toMatch(/^\d+\.\d+\.\d+/);
    const isOld = /^2\.9\./.test(server.version);
    if (isOld) expect(server.warnings).toHaveLength(NEEDS.filter((need) => !need.required).length);
    expect(server.warnings.join().includes("power failure")).toBe(isOld);
  });

  it("is rejected without JetStream, with instructions", async () => {
    const plain = await startNats({ jetstream: false });
    try {
      const open = openNatsBus(plain.url, { ackWaitMs: 1_000, deliverMax: 5, inFlightMax: 5, log: new RecordedLog() });
      await expect(open).rejects.toThrow(/-js/);
    } finally {
      await plain.stop();
    }
  });

  it("is unavailable if it is not running; the error does not contain the password", async () => {
    const gone = await startNats();
    await gone.stop();
    const url = `nats://user:secret@127.0.0.1:${gone.port}`;
    const options = { ackWaitMs: 1_000, deliverMax: 5, inFlightMax: 5, log: new RecordedLog() };
    const error = await openNatsBus(url, options).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "BUS_UNAVAILABLE" });
    expect(String(error)).toContain(`127.0.0.1:${gone.port}`);
    expect(String(error)).not.toContain("secret");
  });

  it("receives the credentials of the URL", async () => {
    const guarded = await startNats({ config: 'authorization { user: me, password: "p@ss" }' });
    const log = new RecordedLog();
    const options = { ackWaitMs: 1_000, deliverMax: 5, inFlightMax: 5, log };
    try {
      const bus = await openNatsBus(`nats://me:p%40ss@127.0.0.1:${guarded.port}`, options);
      await bus.publish(submit("job-1"));
      await bus.close();
      await expect(openNatsBus(guarded.url, options)).rejects.toMatchObject({ code: "BUS_UNAVAILABLE" });
    } finally {
      await guarded.stop();
    }
  });
});
