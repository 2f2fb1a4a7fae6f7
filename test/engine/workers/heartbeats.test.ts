import { expect, test } from "vitest";
import type { PacketBody } from "../../../src/protocol/packet.ts";
import { HANDSHAKE, HEARTBEAT } from "../../../src/protocol/subjects.ts";
import { Harness } from "../harness.ts";

async function open() {
  const harness = new Harness();
  const { engine } = await harness.control("c1");
  const { bus, clock } = engine.world;
  const send = async (subject: string, body: PacketBody) => {
    bus.broadcast(subject, { traceId: "t", senderId: "w", createdAtMs: 1, body });
    await harness.pass(100);
  };
  return { send, list: () => engine.registry.list(clock.now()) };
}

test("a heartbeat carries topics, capabilities, pool, load and the end of a worker", async () => {
  const { send, list } = await open();
  const facts = { topics: ["t"], capabilities: ["gpu"], pool: "fast", activeJobs: 2, maxParallelJobs: 5 };
  await send(HEARTBEAT, { kind: "heartbeat", workerId: "w", ...facts });
  const view = { id: "w", transport: "bus", topics: ["t"], capabilities: ["gpu"], pool: "fast", maxParallelJobs: 5 };
  expect(list()).toMatchObject([{ ...view, activeJobs: 2, isLeaving: false }]);
  // Omitted fields stay, except the load, which protobuf omits if it is zero.
  await send(HEARTBEAT, { kind: "heartbeat", workerId: "w" });
  expect(list()).toMatchObject([{ ...view, activeJobs: 0 }]);
  await send(HEARTBEAT, { kind: "heartbeat", workerId: "w", isLeaving: true });
  expect(list()).toMatchObject([{ ...view, isLeaving: true }]);
});

test("the heartbeat of an HTTP worker names its transport and tenant", async () => {
  const { send, list } = await open();
  const labels = { transport: "http", org: "acme" };
  await send(HEARTBEAT, { kind: "heartbeat", workerId: "w", topics: ["t"], labels });
  await send(HEARTBEAT, { kind: "heartbeat", workerId: "v", topics: ["t"], labels: { transport: "other" } });
  expect(list()).toMatchObject([
    { id: "v", transport: "bus" },
    { id: "w", transport: "http", org: "acme" },
  ]);
});

test("a handshake of a worker carries its topics and flags; other roles are no workers", async () => {
  const { send, list } = await open();
  const handshake = { kind: "handshake", readyTopics: ["t"], capabilities: { direct: true, inline: false } } as const;
  await send(HANDSHAKE, { ...handshake, componentId: "w", role: "worker" });
  await send(HANDSHAKE, { ...handshake, componentId: "g", role: "gateway" });
  expect(list()).toMatchObject([{ id: "w", transport: "bus", topics: ["t"], capabilities: ["direct"] }]);
});
