import { expect } from "vitest";
import { SUBMIT } from "../../../src/protocol/subjects.ts";
import {
  ACK,
  both,
  type CaseMaker,
  CONTRACT_OPTIONS,
  Deliveries,
  GROUP,
  gate,
  later,
  names,
  publishTogether,
  QUIET_MS,
  Recorder,
  submit,
} from "./bus.subject.ts";

/** The bus contract on flow control, long-running handlers, and members that stop or crash. */
export function livenessCases(test: CaseMaker): void {
  windowCases(test);
  memberCases(test);
}

function windowCases(test: CaseMaker): void {
  test("keeps at most `inFlightMax` deliveries unsettled", async (subject) => {
    const { inFlightMax } = CONTRACT_OPTIONS;
    const release = gate();
    let [inside, most] = [0, 0];
    const seen = new Deliveries(subject, async () => {
      inside += 1;
      most = Math.max(most, inside);
      await release.passed;
      inside -= 1;
      return ACK;
    });
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    const ids = names("job", inFlightMax * 4);
    await publishTogether(subject, ids);
    await subject.run(seen.count(inFlightMax));
    await subject.pass(100);
    expect(inside).toBe(inFlightMax);
    release.open();
    await subject.run(seen.count(ids.length));
    expect(most).toBe(inFlightMax);
    expect(seen.ids()).toEqual(ids);
  });

  test("L5: delivers new messages while more messages than `inFlightMax` wait for a delay", async (subject) => {
    const delayed = names("delayed", CONTRACT_OPTIONS.inFlightMax * 3);
    const seen = new Deliveries(subject, ({ id }) => (id.startsWith("delayed") ? later(2_000) : ACK));
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await publishTogether(subject, delayed);
    await subject.run(seen.count(delayed.length));
    for (const id of names("healthy", 5)) await subject.run(subject.bus.publish(submit(id)));
    await subject.run(seen.until((all) => all.filter(({ id }) => id.startsWith("healthy")).length === 5));
    expect(seen.seen.filter(({ attempt }) => attempt > 1)).toEqual([]);
  });

  test("L6: does not redeliver messages with a running handler, nor messages queued behind them", async (subject) => {
    const release = gate();
    const seen = new Deliveries(subject, async () => {
      await release.passed;
      return ACK;
    });
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    const ids = names("job", CONTRACT_OPTIONS.inFlightMax * 2);
    await publishTogether(subject, ids.slice(0, 3));
    for (const id of ids.slice(3)) await subject.run(subject.bus.publish(submit(id)));
    await subject.run(seen.count(CONTRACT_OPTIONS.inFlightMax));
    await subject.pass(CONTRACT_OPTIONS.ackWaitMs * 3);
    release.open();
    await subject.run(seen.count(ids.length));
    await subject.pass(QUIET_MS);
    expect(seen.seen.map(({ id, attempt }) => `${id}#${attempt}`).sort()).toEqual(ids.map((id) => `${id}#1`));
  });
}

function memberCases(test: CaseMaker): void {
  test("`stop` waits for deliveries in progress and applies their settlements", async (subject) => {
    const release = gate();
    const seen = new Deliveries(subject, async () => {
      await release.passed;
      return ACK;
    });
    const stop = await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1")));
    await subject.run(seen.count(1));
    const order = new Recorder<string>();
    const stopped = stop().then(() => order.add("stopped"));
    await subject.pass(100);
    order.add("opened");
    release.open();
    await subject.run(stopped);
    expect(order.seen).toEqual(["opened", "stopped"]);
    const next = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, next.handler));
    await subject.run(subject.bus.publish(submit("job-2")));
    await subject.run(next.count(1));
    await subject.pass(QUIET_MS);
    expect(seen.ids()).toEqual(["job-1"]);
    expect(next.ids()).toEqual(["job-2"]);
  });

  test("redelivers messages that a stopped member had not started", async (subject) => {
    const release = gate();
    const first = new Deliveries(subject, async () => {
      await release.passed;
      return ACK;
    });
    const stop = await subject.run(subject.bus.consume(SUBMIT, GROUP, first.handler));
    const ids = names("job", CONTRACT_OPTIONS.inFlightMax * 2);
    for (const id of ids) await subject.run(subject.bus.publish(submit(id)));
    await subject.run(first.count(CONTRACT_OPTIONS.inFlightMax));
    const stopped = stop();
    release.open();
    await subject.run(stopped);
    const second = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, second.handler));
    await subject.run(both(first, second, ids.length));
    expect([...new Set([...first.ids(), ...second.ids()])].sort()).toEqual(ids);
  });

  test(
    "redelivers the messages of a crashed member to other members",
    async (subject) => {
      const [crashed, alive] = [new Deliveries(subject, () => new Promise(() => {})), new Deliveries(subject)];
      const other = await subject.other();
      await subject.run(other.consume(SUBMIT, GROUP, crashed.handler));
      await publishTogether(subject, ["job-1", "job-2"]);
      await subject.run(crashed.count(2));
      await subject.run(subject.crash!(other));
      await subject.run(subject.bus.consume(SUBMIT, GROUP, alive.handler));
      await subject.run(alive.count(2));
      expect(alive.ids()).toEqual(["job-1", "job-2"]);
      for (const { attempt } of alive.seen) expect(attempt).toBe(2);
    },
    ["processes", "crash"],
  );
}
