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

/** Windows, slow handlers, stopping and dying members: the part of the bus contract that is about going on. */
export function livenessCases(test: CaseMaker): void {
  windowCases(test);
  memberCases(test);
}

function windowCases(test: CaseMaker): void {
  test("at most `inFlightMax` deliveries are with the handlers", async (subject) => {
    const { inFlightMax } = CONTRACT_OPTIONS;
    const doors = gate();
    let [inside, most] = [0, 0];
    const seen = new Deliveries(subject, async () => {
      inside += 1;
      most = Math.max(most, inside);
      await doors.passed;
      inside -= 1;
      return ACK;
    });
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    const ids = names("job", inFlightMax * 4);
    await publishTogether(subject, ids);
    await subject.run(seen.count(inFlightMax));
    await subject.pass(100);
    expect(inside).toBe(inFlightMax);
    doors.open();
    await subject.run(seen.count(ids.length));
    expect(most).toBe(inFlightMax);
    expect(seen.ids()).toEqual(ids);
  });

  test("L5: more delayed messages than the window do not stop healthy ones", async (subject) => {
    const delayed = names("delayed", CONTRACT_OPTIONS.inFlightMax * 3);
    const seen = new Deliveries(subject, ({ id }) => (id.startsWith("delayed") ? later(2_000) : ACK));
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await publishTogether(subject, delayed);
    await subject.run(seen.count(delayed.length));
    for (const id of names("healthy", 5)) await subject.run(subject.bus.publish(submit(id)));
    await subject.run(seen.until((all) => all.filter(({ id }) => id.startsWith("healthy")).length === 5));
    expect(seen.seen.filter(({ attempt }) => attempt > 1)).toEqual([]);
  });

  test("L6: while handlers work, neither their messages nor those behind them come again", async (subject) => {
    const doors = gate();
    const seen = new Deliveries(subject, async () => {
      await doors.passed;
      return ACK;
    });
    await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    const ids = names("job", CONTRACT_OPTIONS.inFlightMax * 2);
    await publishTogether(subject, ids.slice(0, 3));
    for (const id of ids.slice(3)) await subject.run(subject.bus.publish(submit(id)));
    await subject.run(seen.count(CONTRACT_OPTIONS.inFlightMax));
    await subject.pass(CONTRACT_OPTIONS.ackWaitMs * 3);
    doors.open();
    await subject.run(seen.count(ids.length));
    await subject.pass(QUIET_MS);
    expect(seen.seen.map(({ id, attempt }) => `${id}#${attempt}`).sort()).toEqual(ids.map((id) => `${id}#1`));
  });
}

function memberCases(test: CaseMaker): void {
  test("`stop` waits for the deliveries in progress, and their answers count", async (subject) => {
    const doors = gate();
    const seen = new Deliveries(subject, async () => {
      await doors.passed;
      return ACK;
    });
    const stop = await subject.run(subject.bus.consume(SUBMIT, GROUP, seen.handler));
    await subject.run(subject.bus.publish(submit("job-1")));
    await subject.run(seen.count(1));
    const order = new Recorder<string>();
    const stopped = stop().then(() => order.add("stopped"));
    await subject.pass(100);
    order.add("opened");
    doors.open();
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

  test("what a stopped member had not begun goes to the next member", async (subject) => {
    const doors = gate();
    const first = new Deliveries(subject, async () => {
      await doors.passed;
      return ACK;
    });
    const stop = await subject.run(subject.bus.consume(SUBMIT, GROUP, first.handler));
    const ids = names("job", CONTRACT_OPTIONS.inFlightMax * 2);
    for (const id of ids) await subject.run(subject.bus.publish(submit(id)));
    await subject.run(first.count(CONTRACT_OPTIONS.inFlightMax));
    const stopped = stop();
    doors.open();
    await subject.run(stopped);
    const second = new Deliveries(subject);
    await subject.run(subject.bus.consume(SUBMIT, GROUP, second.handler));
    await subject.run(both(first, second, ids.length));
    expect([...new Set([...first.ids(), ...second.ids()])].sort()).toEqual(ids);
  });

  test(
    "a member that dies loses its messages to the others",
    async (subject) => {
      const [dead, alive] = [new Deliveries(subject, () => new Promise(() => {})), new Deliveries(subject)];
      const doomed = await subject.other();
      await subject.run(doomed.consume(SUBMIT, GROUP, dead.handler));
      await publishTogether(subject, ["job-1", "job-2"]);
      await subject.run(dead.count(2));
      await subject.run(subject.crash!(doomed));
      await subject.run(subject.bus.consume(SUBMIT, GROUP, alive.handler));
      await subject.run(alive.count(2));
      expect(alive.ids()).toEqual(["job-1", "job-2"]);
      for (const { attempt } of alive.seen) expect(attempt).toBe(2);
    },
    ["processes", "crash"],
  );
}
