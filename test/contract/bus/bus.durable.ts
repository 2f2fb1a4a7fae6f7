import { expect } from "vitest";
import type { Settlement } from "../../../src/core/retry/bus-action.ts";

import { SUBMIT } from "../../../src/protocol/subjects.ts";
import {
  ACK,
  type BusSubject,
  both,
  type CaseMaker,
  Deliveries,
  finish,
  GROUP,
  later,
  NAK,
  names,
  publishTogether,
  QUIET_MS,
  request,
  submit,
  TERM,
} from "./bus.subject.ts";

/** The bus contract on `publish` and `consume`. */
export function durableCases(test: CaseMaker): void {
  deliveryCases(test);
  settlementCases(test);
  batchCases(test);
}

function deliveryCases(test: CaseMaker): void {
  test("delivers a message unchanged", async (subject) => {
    const seen = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1")));
    await subject.run(seen.count(1));
    const [delivery] = seen.seen;
    expect(delivery).toMatchObject({ id: "job-1", subject: SUBMIT, attempt: 1 });
    expect(delivery?.content).toEqual({ kind: "packet", packet: request("job-1") });
  });

  test("delivers only messages of the consumed subject", async (subject) => {
    const seen = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(Promise.all([subject.bus.publish(finish("res-1")), subject.bus.publish(submit("job-1"))]));
    await subject.run(seen.count(1));
    await subject.pass(50);
    expect(seen.ids()).toEqual(["job-1"]);
  });

  test("delivers a message to one member of a group", async (subject) => {
    const [mine, theirs] = [new Deliveries(subject), new Deliveries(subject)];
    const other = await subject.other();
    await subject.run(subject.bus.consume(SUBMIT, GROUP, mine.handler));
    await subject.run(other.consume(SUBMIT, GROUP, theirs.handler));
    const ids = names("job", 40);
    for (const id of ids) await subject.run(subject.bus.publish(submit(id)));
    await subject.run(both(mine, theirs, ids.length));
    await subject.pass(QUIET_MS);
    expect([...mine.ids(), ...theirs.ids()].sort()).toEqual(ids);
  });

  test("delivers every message to every group", async (subject) => {
    const [a, b] = [new Deliveries(subject), new Deliveries(subject)];
    await subject.run(subject.bus.consume(SUBMIT, "group-a", a.handler));
    await subject.run(subject.bus.consume(SUBMIT, "group-b", b.handler));
    const ids = names("job", 10);
    await publishTogether(subject, ids);
    await subject.run(Promise.all([a.count(10), b.count(10)]));
    expect(a.ids()).toEqual(ids);
    expect(b.ids()).toEqual(ids);
  });

  test("delivers messages published while the group has no members", async (subject) => {
    const early = new Deliveries(subject);
    const stop = await subject.run(subject.bus.consume(SUBMIT, GROUP, early.handler));
    await subject.run(stop());
    await publishTogether(subject, ["job-1", "job-2", "job-3"]);
    const late = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, late.handler));
    await subject.run(late.count(3));
    expect(early.seen).toEqual([]);
    expect(late.ids()).toEqual(["job-1", "job-2", "job-3"]);
  });

  test("deduplicates messages by id", async (subject) => {
    const seen = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1")));
    await subject.run(subject.bus.publish(submit("job-1")));
    await publishTogether(subject, ["job-2", "job-2", "job-1", "job-3"]);
    await publishTogether(subject, ["job-3", "job-4"]);
    await subject.run(seen.until((all) => all.some((delivery) => delivery.id === "job-4")));
    await subject.pass(50);
    expect(seen.ids()).toEqual(["job-1", "job-2", "job-3", "job-4"]);
  });

  test("L7: does not deduplicate ids with different attempts", async (subject) => {
    const seen = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1@1")));
    await subject.run(subject.bus.publish(submit("job-1@2")));
    await subject.run(seen.count(2));
    expect(seen.ids()).toEqual(["job-1@1", "job-1@2"]);
  });
}

function settlementCases(test: CaseMaker): void {
  test("`ack` ends the message", (subject) => endsWith(subject, ACK));
  test("`term` ends the message", (subject) => endsWith(subject, TERM));

  test("`nak` redelivers the message with the next attempt number", async (subject) => {
    const seen = new Deliveries(subject, (delivery) => (delivery.attempt < 3 ? NAK : ACK));
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1")));
    await subject.run(seen.count(3));
    await subject.pass(QUIET_MS);
    expect(seen.seen.map((delivery) => delivery.attempt)).toEqual([1, 2, 3]);
  });

  test("`nakDelay` redelivers the message, not before the delay has passed", async (subject) => {
    const seen = new Deliveries(subject, (delivery) => (delivery.attempt < 3 ? later(150) : ACK));
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1")));
    await subject.run(seen.count(3));
    expect(seen.seen.map((delivery) => delivery.attempt)).toEqual([1, 2, 3]);
    for (const gap of gaps(seen)) expect(gap).toBeGreaterThanOrEqual(149);
  });

  test("a handler that throws gets a redelivery after one second", async (subject) => {
    const seen = new Deliveries(subject, (delivery) => {
      if (delivery.attempt === 1) throw new Error("a bug");
      return ACK;
    });
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1")));
    await subject.run(seen.count(2));
    expect(seen.seen.map((delivery) => delivery.attempt)).toEqual([1, 2]);
    for (const gap of gaps(seen)) expect(gap).toBeGreaterThanOrEqual(999);
  });

  test(
    "delivers undecodable bytes raw, and redelivers them until they are settled",
    async (subject) => {
      const seen = new Deliveries(subject, (delivery) => (delivery.attempt < 3 ? later(20) : TERM));
      await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
      const bytes = new Uint8Array([0xff, 0x00, 0x12, 0x80, 0x7f]);
      await subject.run(subject.injectRaw!(SUBMIT, bytes));
      await subject.run(seen.count(3));
      await subject.pass(QUIET_MS);
      expect(seen.seen.map((delivery) => delivery.attempt)).toEqual([1, 2, 3]);
      for (const { content } of seen.seen) {
        expect(content.kind).toBe("undecodable");
        if (content.kind !== "undecodable") continue;
        expect([...content.bytes]).toEqual([...bytes]);
        expect(content.error).not.toBe("");
      }
    },
    ["inject"],
  );
}

function batchCases(test: CaseMaker): void {
  test("resolves and delivers each of 1,000 publishes of one tick", async (subject) => {
    const seen = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    const ids = names("job", 1_000);
    await publishTogether(subject, ids);
    await subject.run(seen.count(1_000));
    await subject.pass(QUIET_MS);
    expect(seen.ids()).toEqual(ids);
  });

  test("redelivers only the failed item of a batch, and only to the group it failed in", async (subject) => {
    const answers = new Map<string, Settlement>([
      ["job-0003", NAK],
      ["job-0005", later(200)],
      ["job-0007", TERM],
    ]);
    const seen = new Deliveries(subject, ({ id, attempt }) => (attempt < 3 ? answers.get(id) : undefined) ?? ACK);
    const otherGroup = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.consume(SUBMIT, "other", otherGroup.handler));
    const ids = names("job", 10);
    await publishTogether(subject, ids);
    await subject.run(seen.until((all) => all.filter((delivery) => delivery.attempt === 3).length === 2));
    await subject.pass(QUIET_MS);
    expect(seen.of("job-0003").map((delivery) => delivery.attempt)).toEqual([1, 2, 3]);
    expect(seen.of("job-0005").map((delivery) => delivery.attempt)).toEqual([1, 2, 3]);
    expect(seen.seen).toHaveLength(ids.length + 4);
    expect(otherGroup.ids()).toEqual(ids);
    const delayed = seen.of("job-0005");
    for (const gap of gaps({ seen: delayed })) expect(gap).toBeGreaterThanOrEqual(199);
    expect(delayed[1]?.content).toEqual({ kind: "packet", packet: request("job-0005") });
  });

  test("redelivers only the item of a batch on which the handler throws", async (subject) => {
    const seen = new Deliveries(subject, ({ id, attempt }) => {
      if (id === "job-0002" && attempt === 1) throw new Error("a bug");
      return ACK;
    });
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    const ids = names("job", 6);
    await publishTogether(subject, ids);
    await subject.run(seen.count(7));
    await subject.pass(50);
    expect(seen.ids()).toEqual([...ids, "job-0002"].sort());
  });
}

async function endsWith(subject: BusSubject, settlement: Settlement): Promise<void> {
  const seen = new Deliveries(subject, () => settlement);
  await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
  await subject.run(subject.bus.publish(submit("job-1")));
  await subject.run(seen.count(1));
  await subject.pass(QUIET_MS);
  expect(seen.seen).toHaveLength(1);
}

const gaps = (recorder: { readonly seen: readonly { readonly atMs: number }[] }): number[] =>
  recorder.seen.slice(1).map((delivery, index) => delivery.atMs - recorder.seen[index]!.atMs);
