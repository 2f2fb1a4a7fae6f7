import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Settlement } from "../../../src/core/retry/bus-action.ts";
import type { Delivery } from "../../../src/ports/bus.ts";
import { put } from "../../../src/ports/store.ts";
import { SUBMIT } from "../../../src/protocol/subjects.ts";
import { ACK, GROUP, gate, NAK, names, Recorder, request, submit } from "../../contract/bus/bus.subject.ts";
import { changeOf, DOCS } from "../../contract/store/store.subject.ts";
import { numberOf, type Opened, TestDirectory } from "./directory.ts";

/** Settles deliveries and records them. */
class Inbox extends Recorder<Delivery> {
  readonly #answer: (delivery: Delivery) => Settlement | Promise<Settlement>;

  constructor(answer: (delivery: Delivery) => Settlement | Promise<Settlement> = () => ACK) {
    super();
    this.#answer = answer;
  }

  readonly handler = async (delivery: Delivery): Promise<Settlement> => {
    this.add(delivery);
    return this.#answer(delivery);
  };

  list(): string[] {
    return this.seen.map(({ id, attempt }) => `${id}#${attempt}`);
  }
}

const never = () => new Promise<never>(() => {});
const later = (delayMs: number): Settlement => ({ kind: "nakDelay", delayMs });
const ROWS = "select count(*) from messages";

let directory: TestDirectory;
beforeEach(() => {
  directory = new TestDirectory();
});
afterEach(() => directory.close());

/** Counts all rows ever written, including deleted ones. */
function countWrites(opened: Opened): () => number {
  opened.db.exec(
    "create table written (id); create trigger w after insert on messages begin insert into written values (new.id); end",
  );
  return () => numberOf(opened.db, "select count(*) from written");
}

describe("messages in memory", () => {
  it("does not write a message that ends within the grace period; publish resolves after the handler", async () => {
    const opened = await directory.open();
    const writes = countWrites(opened);
    const events: string[] = [];
    const work = async ({ id }: Delivery): Promise<Settlement> => {
      const before = await opened.store.load(DOCS, id);
      await opened.store.commit(changeOf([put(DOCS, id, before, { text: "done" })]));
      events.push(`handled ${id}`);
      return ACK;
    };
    await opened.bus.consume(SUBMIT, GROUP, work);
    const ids = names("m", 200);
    await Promise.all(ids.map((id) => opened.bus.publish(submit(id)).then(() => events.push(`safe ${id}`))));
    expect(writes()).toBe(0);
    opened.checkpoint();
    expect(numberOf(opened.db, "select count(*) from records")).toBe(200);
    for (const id of ids) expect(events.indexOf(`handled ${id}`)).toBeLessThan(events.indexOf(`safe ${id}`));
  });

  it("does not run handlers inside publish", async () => {
    const { bus } = await directory.open();
    const inbox = new Inbox();
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    const published = bus.publish(submit("m"));
    expect(inbox.seen).toEqual([]);
    await published;
    expect(inbox.list()).toEqual(["m#1"]);
  });
});

describe("messages on disk", () => {
  it("publish does not wait for a slow handler: the message is stored, and deleted when it ends", async () => {
    const { bus, db } = await directory.open();
    const handlers = gate();
    const inbox = new Inbox(() => handlers.passed.then(() => ACK));
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await bus.publish(submit("m"));
    expect(numberOf(db, ROWS)).toBe(1);
    handlers.open();
    await directory.clock.pass(20);
    expect(numberOf(db, ROWS)).toBe(0);
    expect(inbox.list()).toEqual(["m#1"]);
  });

  it("redelivers after a crash and counts every begun delivery", async () => {
    for (const attempt of [1, 2, 3]) {
      const { bus } = await directory.open();
      const inbox = new Inbox(never);
      await bus.consume(SUBMIT, GROUP, inbox.handler);
      if (attempt === 1) await bus.publish(submit("m"));
      await inbox.count(1);
      expect(inbox.list()).toEqual([`m#${attempt}`]);
      expect(inbox.seen[0]!.content).toEqual({ kind: "packet", packet: request("m") });
      await directory.crash();
    }
    const { bus, db } = await directory.open();
    const inbox = new Inbox();
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await inbox.count(1);
    await directory.clock.pass(20);
    expect(inbox.list()).toEqual(["m#4"]);
    expect(numberOf(db, ROWS)).toBe(0);
  });

  it("keeps a delay across a restart", async () => {
    const first = await directory.open();
    const delayed = new Inbox(() => later(60_000));
    await first.bus.consume(SUBMIT, GROUP, delayed.handler);
    await first.bus.publish(submit("m"));
    await directory.crash();
    await directory.clock.pass(30_000);
    const { bus } = await directory.open();
    const inbox = new Inbox();
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await directory.clock.pass(29_999);
    expect(inbox.list()).toEqual([]);
    await directory.clock.pass(1);
    expect(inbox.list()).toEqual(["m#2"]);
  });

  it("close stores messages in flight", async () => {
    const { bus, writer } = await directory.open({ inFlightMax: 1 });
    await bus.consume(SUBMIT, GROUP, new Inbox(never).handler);
    const published = Promise.all(["working", "ready"].map((id) => bus.publish(submit(id))));
    await Promise.resolve();
    bus.close();
    await writer.close();
    await published;
    await directory.crash();
    const again = await directory.open();
    const inbox = new Inbox();
    await again.bus.consume(SUBMIT, GROUP, inbox.handler);
    await inbox.count(2);
    expect(inbox.list().sort()).toEqual(["ready#1", "working#2"]);
    await expect(bus.publish(submit("late"))).rejects.toThrow("closed");
  });

  it("delivers a damaged row as raw bytes", async () => {
    const { bus, db } = await directory.open();
    const stop = await bus.consume(SUBMIT, GROUP, new Inbox().handler);
    await stop();
    await Promise.all(["text", "bytes"].map((id) => bus.publish(submit(id))));
    db.exec("update messages set packet = 'not json' where id = 'text'");
    db.exec("update messages set packet = x'ff001280' where id = 'bytes'");
    const inbox = new Inbox();
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await inbox.count(2);
    const found = new Map(inbox.seen.map(({ id, content }) => [id, content]));
    expect(found.get("text")).toMatchObject({ kind: "undecodable", bytes: new TextEncoder().encode("not json") });
    expect(found.get("bytes")).toMatchObject({ kind: "undecodable", bytes: new Uint8Array([0xff, 0, 0x12, 0x80]) });
  });

  it("delivers a long backlog once and in order, then newer messages", async () => {
    const { bus, db } = await directory.open({ inFlightMax: 100 });
    await (await bus.consume(SUBMIT, GROUP, new Inbox().handler))();
    const ids = names("m", 10_000);
    for (let from = 0; from < ids.length; from += 1_000) {
      await Promise.all(ids.slice(from, from + 1_000).map((id) => bus.publish(submit(id))));
    }
    const inbox = new Inbox();
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    const more = names("n", 100);
    await Promise.all(more.map((id) => bus.publish(submit(id))));
    await directory.clock.run(inbox.count(10_100));
    await directory.clock.pass(50);
    const first = inbox.seen.filter(({ id }) => id.startsWith("m")).map(({ id }) => id);
    expect(first).toEqual(ids);
    expect(inbox.seen).toHaveLength(10_100);
    expect(numberOf(db, ROWS)).toBe(0);
  });

  it("delivers each message once when there are more than fit in memory", async () => {
    const { bus } = await directory.open({ inFlightMax: 8 });
    const handlers = gate();
    const inbox = new Inbox(() => handlers.passed.then(() => ACK));
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    const ids = names("m", 6_000);
    await directory.clock.run(Promise.all(ids.map((id) => bus.publish(submit(id)))));
    handlers.open();
    await directory.clock.run(inbox.count(ids.length));
    await directory.clock.pass(50);
    expect(inbox.seen.map(({ id }) => id).sort()).toEqual(ids);
  });
});

describe("consumer groups", () => {
  it("keeps messages for a group without members, across a restart", async () => {
    const first = await directory.open();
    await (await first.bus.consume(SUBMIT, "a", new Inbox().handler))();
    await (await first.bus.consume(SUBMIT, "b", new Inbox().handler))();
    await first.bus.publish(submit("m1"));
    await directory.crash();
    const { bus } = await directory.open();
    await bus.publish(submit("m2"));
    for (const group of ["a", "b"]) {
      const inbox = new Inbox();
      await bus.consume(SUBMIT, group, inbox.handler);
      await inbox.count(2);
      expect(inbox.list().sort()).toEqual(["m1#1", "m2#1"]);
    }
  });

  it("keeps messages of a subject without groups for its first group only", async () => {
    const first = await directory.open();
    await first.bus.publish(submit("m1"));
    await directory.crash();
    const { bus } = await directory.open();
    const published = bus.publish(submit("m2"));
    const [a, b] = [new Inbox(), new Inbox()];
    await bus.consume(SUBMIT, "a", a.handler);
    await bus.consume(SUBMIT, "b", b.handler);
    await published;
    await a.count(2);
    await bus.publish(submit("m3"));
    await directory.clock.pass(50);
    expect(a.list().sort()).toEqual(["m1#1", "m2#1", "m3#1"]);
    expect(b.list()).toEqual(["m3#1"]);
  });

  it("rejects when a subject without consumers is full, and drops nothing", async () => {
    const before = await directory.open();
    before.db.exec(
      "insert into messages (subject, grp, id, packet, attempt, visible_ms, at_ms) " +
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 99999) " +
        `select '${SUBMIT}', '', 'old-' || i, '{}', 0, 0, ${directory.clock.now()} from n`,
    );
    await directory.crash();
    const { bus, db } = await directory.open();
    await bus.publish(submit("last"));
    await expect(bus.publish(submit("too many"))).rejects.toThrow(/`sys.job.submit` has no consumer: 100000 messages/);
    expect(numberOf(db, ROWS)).toBe(100_000);
    await bus.consume(SUBMIT, GROUP, new Inbox(never).handler);
    await bus.publish(submit("too many"));
  });

  it("rejects after a subject had no consumer for a week", async () => {
    const { bus, db } = await directory.open();
    const week = 7 * 24 * 3_600_000;
    await bus.publish(submit("m1"));
    await directory.clock.pass(week);
    await bus.publish(submit("m2"));
    await directory.clock.pass(1);
    await expect(bus.publish(submit("m3"))).rejects.toThrow("has no consumer");
    expect(numberOf(db, ROWS)).toBe(2);
  });
});

describe("settlements", () => {
  it("delayed messages take no slots (L5)", async () => {
    const { bus } = await directory.open({ inFlightMax: 2 });
    const inbox = new Inbox(({ id }) => (id.startsWith("slow") ? later(60_000) : ACK));
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await Promise.all(names("slow", 50).map((id) => bus.publish(submit(id))));
    await bus.publish(submit("healthy"));
    expect(inbox.list()).toContain("healthy#1");
    await directory.clock.pass(59_999);
    expect(inbox.seen).toHaveLength(51);
    await directory.clock.pass(1);
    expect(inbox.seen).toHaveLength(101);
  });

  it("redelivers each delayed message at its own millisecond", async () => {
    const { bus } = await directory.open();
    const redeliveredMs: number[] = [];
    const inbox = new Inbox(({ id, attempt }) => {
      if (attempt === 1) return later(Number(id.slice(1)));
      redeliveredMs.push(directory.clock.now());
      return ACK;
    });
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    const startMs = directory.clock.now();
    const delays = [900, 10, 350, 351, 500, 10];
    await Promise.all(delays.map((delay, index) => bus.publish(submit(`${index}${delay}`))));
    await directory.clock.pass(1_000);
    expect(redeliveredMs.map((ms) => ms - startMs)).toEqual([...delays].sort((a, b) => a - b));
  });

  it("keeps and logs a message after its last delivery, without another one (L3)", async () => {
    const { bus, db } = await directory.open({ deliverMax: 3 });
    const inbox = new Inbox(() => NAK);
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await bus.publish(submit("m"));
    await directory.clock.pass(3_600_000);
    expect(inbox.list()).toEqual(["m#1", "m#2", "m#3"]);
    expect(numberOf(db, ROWS)).toBe(1);
    expect(directory.logged.map(({ event }) => event)).toContain("bus.delivery_limit");
  });

  it("rejects publish after a failed write, and accepts the message again at once", async () => {
    const { bus, store } = await directory.open();
    await (await bus.consume(SUBMIT, GROUP, new Inbox().handler))();
    directory.commitErrors = [new Error("database or disk is full")];
    await expect(bus.publish(submit("m"))).rejects.toThrow("full");
    await bus.publish(submit("m"));
    await store.load(DOCS, "a");
    const inbox = new Inbox();
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await inbox.count(1);
    expect(inbox.list()).toEqual(["m#1"]);
  });

  it("keeps a message in memory when its delay could not be written", async () => {
    const { bus } = await directory.open();
    const inbox = new Inbox(({ attempt }) => {
      if (attempt > 1) return ACK;
      directory.commitErrors = [new Error("database or disk is full")];
      return later(100);
    });
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await expect(bus.publish(submit("m"))).rejects.toThrow("full");
    await directory.clock.run(inbox.count(2));
    expect(inbox.list()).toEqual(["m#1", "m#2"]);
  });

  it("deduplicates ids for at least two minutes, not forever", async () => {
    const { bus } = await directory.open();
    const inbox = new Inbox();
    await bus.consume(SUBMIT, GROUP, inbox.handler);
    await bus.publish(submit("m"));
    await directory.clock.pass(119_999);
    await bus.publish(submit("m"));
    expect(inbox.list()).toEqual(["m#1"]);
    await directory.clock.pass(240_000);
    await bus.publish(submit("m"));
    expect(inbox.list()).toEqual(["m#1", "m#1"]);
  });

  it("reports whether a subject has subscribers", async () => {
    const { bus } = await directory.open();
    expect(bus.hasSubscribers(SUBMIT)).toBe(false);
    const stop = await bus.subscribe(SUBMIT, () => {});
    expect(bus.hasSubscribers(SUBMIT)).toBe(true);
    await stop();
    expect(bus.hasSubscribers(SUBMIT)).toBe(false);
  });
});
