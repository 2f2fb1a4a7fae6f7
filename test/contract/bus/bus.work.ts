import { expect } from "vitest";
import type { Packet } from "../../../src/protocol/packet.ts";
import { HEARTBEAT, workSubject } from "../../../src/protocol/subjects.ts";
import { type BusSubject, type CaseMaker, names, Recorder, request } from "./bus.subject.ts";

/** The fleeting half of the bus contract: `tell` and `listen`, `dispatch` and `serve`. */
export function workCases(test: CaseMaker): void {
  tellCases(test);
  dispatchCases(test);
}

const ECHO = workSubject("contract.echo");

function tellCases(test: CaseMaker): void {
  test("every listener hears what is told, once", async (subject) => {
    const [a, b, elsewhere] = [new Packets(), new Packets(), new Packets()];
    const other = await subject.other();
    await subject.run(subject.bus.subscribe(HEARTBEAT, a.hear));
    await subject.run(subject.bus.subscribe(HEARTBEAT, b.hear));
    await subject.run(other.subscribe(HEARTBEAT, elsewhere.hear));
    expect([subject.bus.hasSubscribers(HEARTBEAT), other.hasSubscribers(HEARTBEAT)]).toEqual([true, true]);
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-1"));
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-2"));
    await subject.run(Promise.all([a.count(2), b.count(2), elsewhere.count(2)]));
    await subject.pass(50);
    for (const heard of [a, b, elsewhere]) expect(heard.seen).toEqual([heartbeat("w-1"), heartbeat("w-2")]);
  });

  test("a listener that stopped hears nothing more, the others do", async (subject) => {
    const [a, b] = [new Packets(), new Packets()];
    const stop = await subject.run(subject.bus.subscribe(HEARTBEAT, a.hear));
    await subject.run(subject.bus.subscribe(HEARTBEAT, b.hear));
    await subject.run(stop());
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-1"));
    await subject.run(b.count(1));
    await subject.pass(50);
    expect(a.seen).toEqual([]);
  });

  test("a listener that throws does not silence the others, nor itself", async (subject) => {
    const [a, b] = [new Packets(), new Packets()];
    await subject.run(
      subject.bus.subscribe(HEARTBEAT, (packet) => {
        a.hear(packet);
        throw new Error("a bug");
      }),
    );
    await subject.run(subject.bus.subscribe(HEARTBEAT, b.hear));
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-1"));
    subject.bus.broadcast(HEARTBEAT, heartbeat("w-2"));
    await subject.run(Promise.all([a.count(2), b.count(2)]));
  });
}

function dispatchCases(test: CaseMaker): void {
  test("a dispatch nobody serves is known at once: `no_responders`", async (subject) => {
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-1")))).toBe("no_responders");
  });

  test("a dispatch reaches one server as it was sent", async (subject) => {
    const served = new Packets();
    await subject.run(subject.bus.serve(ECHO, served.hear));
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-1")))).toBe("sent");
    await subject.run(served.count(1));
    expect(served.seen).toEqual([request("job-1")]);
  });

  test("several servers share the work: each dispatch goes to one, and none is left idle", async (subject) => {
    const [a, b] = [new Packets(), new Packets()];
    const other = await subject.other();
    await subject.run(subject.bus.serve(ECHO, a.hear));
    await subject.run(other.serve(ECHO, b.hear));
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

  test("dispatches of one tick each get their own answer", async (subject) => {
    const served = new Packets();
    await subject.run(subject.bus.serve(ECHO, served.hear));
    const nobody = workSubject("contract.nobody");
    const ids = names("job", 300);
    const answers = await subject.run(
      Promise.all(ids.map((id, index) => subject.bus.dispatch(index % 3 === 0 ? nobody : ECHO, request(id)))),
    );
    expect(answers).toEqual(ids.map((_, index) => (index % 3 === 0 ? "no_responders" : "sent")));
    await subject.run(served.count(200));
  });

  test("a server that stopped is gone: `no_responders`", async (subject) => {
    const served = new Packets();
    const stop = await subject.run(subject.bus.serve(ECHO, served.hear));
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-1")))).toBe("sent");
    await subject.run(served.count(1));
    await subject.run(stop());
    expect(await subject.run(subject.bus.dispatch(ECHO, request("job-2")))).toBe("no_responders");
    expect(served.jobs()).toEqual(["job-1"]);
  });
}

class Packets extends Recorder<Packet> {
  readonly hear = (packet: Packet): void => this.add(packet);

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
