import { expect } from "vitest";
import type { Packet } from "../../../src/protocol/packet.ts";
import { HEARTBEAT, workSubject } from "../../../src/protocol/subjects.ts";
import { type BusSubject, type CaseMaker, names, Recorder, request } from "./bus.subject.ts";

/** The bus contract on `broadcast`, `subscribe`, `dispatch` and `serve`. */
export function transientCases(test: CaseMaker): void {
  broadcastCases(test);
  dispatchCases(test);
}

const ECHO = workSubject("contract.echo");

function broadcastCases(test: CaseMaker): void {
  test("delivers a broadcast once to every subscriber", async (subject) => {
    const [a, b, remote] = [new Packets(), new Packets(), new Packets()];
    const other = await subject.other();
    await subject.run(subject.bus.subscribe(HEARTBEAT, a.receive));
    await subject.run(subject.bus.subscribe(HEARTBEAT, b.receive));
    await subject.run(other.subscribe(HEARTBEAT, remote.receive));
    expect([subject.bus.hasSubscribers(HEARTBEAT), other.hasSubscribers(HEARTBEAT)]).toEqual([true, true]);
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-1"));
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-2"));
    await subject.run(Promise.all([a.count(2), b.count(2), remote.count(2)]));
    await subject.pass(50);
    for (const received of [a, b, remote]) expect(received.seen).toEqual([heartbeat("w-1"), heartbeat("w-2")]);
  });

  test("stops deliveries to a subscriber that has stopped, but not to others", async (subject) => {
    const [a, b] = [new Packets(), new Packets()];
    const stop = await subject.run(subject.bus.subscribe(HEARTBEAT, a.receive));
    await subject.run(subject.bus.subscribe(HEARTBEAT, b.receive));
    await subject.run(stop());
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-1"));
    await subject.run(b.count(1));
    await subject.pass(50);
    expect(a.seen).toEqual([]);
  });

  test("continues deliveries after a subscriber has thrown", async (subject) => {
    const [a, b] = [new Packets(), new Packets()];
    await subject.run(
      subject.bus.subscribe(HEARTBEAT, (packet) => {
        a.receive(packet);
        throw new Error("a bug");
      }),
    );
    await subject.run(subject.bus.subscribe(HEARTBEAT, b.receive));
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-1"));
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-2"));
    await subject.run(Promise.all([a.count(2), b.count(2)]));
  });
}

function dispatchCases(test: CaseMaker): void {
  test("reports `no_responders` for a subject without a server", async (subject) => {
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-1")))).toBe("no_responders");
  });

  test("delivers a dispatch unchanged to one server", async (subject) => {
    const served = new Packets();
    await subject.run(subject.bus.serve(ECHO, served.receive));
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-1")))).toBe("sent");
    await subject.run(served.count(1));
    expect(served.seen).toEqual([request("job-1")]);
  });

  test("distributes dispatches over all servers, each to one of them", async (subject) => {
    const [a, b] = [new Packets(), new Packets()];
    const other = await subject.other();
    await subject.run(subject.bus.serve(ECHO, a.receive));
    await subject.run(other.serve(ECHO, b.receive));
    const ids = names("job", 200);
    const answers = await dispatchTogether(subject, ECHO, ids);
    expect(new Set(answers)).toEqual(new Set(["sent"]));
    const enough = () => a.seen.length + b.seen.length >= ids.length;
    await subject.run(Promise.race([a.until(enough), b.until(enough)]));
    await subject.pass(50);
    expect([...a.jobs(), ...b.jobs()].sort()).toEqual(ids);
    expect(a.seen.length).toBeGreaterThan(0);
    expect(b.seen.length).toBeGreaterThan(0);
  });

  test("returns the result of each dispatch of a tick", async (subject) => {
    const served = new Packets();
    await subject.run(subject.bus.serve(ECHO, served.receive));
    const unserved = workSubject("contract.unserved");
    const ids = names("job", 300);
    const answers = await subject.run(
      Promise.all(ids.map((id, index) => subject.bus.dispatch(index % 3 === 0 ? unserved : ECHO, request(id)))),
    );
    expect(answers).toEqual(ids.map((_, index) => (index % 3 === 0 ? "no_responders" : "sent")));
    await subject.run(served.count(200));
  });

  test("reports `no_responders` after the server has stopped", async (subject) => {
    const served = new Packets();
    const stop = await subject.run(subject.bus.serve(ECHO, served.receive));
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-1")))).toBe("sent");
    await subject.run(served.count(1));
    await subject.run(stop());
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-2")))).toBe("no_responders");
    expect(served.jobs()).toEqual(["job-1"]);
  });
}

class Packets extends Recorder<Packet> {
  readonly receive = (packet: Packet): void => this.add(packet);

  jobs(): string[] {
    return this.seen.map(({ body }) => (body.kind === "job_request" ? body.jobId : body.kind)).sort();
  }
}

const heartbeat = (workerId: string): Packet => ({
  traceId: "",
  senderId: workerId,
  createdAtMs: 1_700_000_000_000,
  body: { kind: "heartbeat", workerId, activeJobs: 2, capabilities: ["echo"], labels: { zone: "a" } },
});

const dispatchTogether = (subject: BusSubject, on: string, ids: readonly string[]) =>
  subject.run(Promise.all(ids.map((id) => subject.bus.dispatch(on, request(id)))));
