// CAP's published example worker and client, played from the wire description with a third-party protobuf library: a silent serial
// worker in a queue group, and a client that stores its input, submits on the bus and waits for the result.
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openEngine } from "../../../src/engine/engine.ts";
import { startControl } from "../../../src/engine/start-control.ts";
import { type WirePacket, wireDecode, wireEncode } from "../../protocol/cap-wire.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { openTestCluster } from "../fixtures/cluster.ts";

let servers: readonly RunningServer[];
let bus: NatsConnection;
let redis: Redis;
let close: () => Promise<void>;

beforeAll(async () => {
  const [nats, store] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  servers = [nats, store];
  bus = await connect({ servers: `127.0.0.1:${nats.port}` });
  redis = new Redis(store.url);
  const opened = await openTestCluster({ nats: nats.url, redis: store.url, name: "c1" });
  const control = await startControl(openEngine(opened.world, { current: opened.settings }));
  close = async () => {
    await control.stop();
    await opened.close();
  };
});

afterAll(async () => {
  await close();
  await bus.close();
  redis.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

const packet = (senderId: string, payload: object): Uint8Array =>
  wireEncode({
    traceId: "trace-1",
    senderId,
    createdAt: { seconds: Math.floor(Date.now() / 1_000) },
    protocolVersion: 1,
    ...payload,
  });

const packetOfVersion = (protocolVersion: number, senderId: string, payload: object): Uint8Array =>
  wireEncode({ ...wireDecode(packet(senderId, payload)), protocolVersion });

const keyOf = (pointer: unknown): string => String(pointer).replace(/^redis:\/\//, "");

/** Answers one job after the other; returns the requests it executed. */
function exampleWorker(topic: string): WirePacket[] {
  const executed: WirePacket[] = [];
  let last = Promise.resolve();
  const work = async (request: WirePacket) => {
    executed.push(request);
    const input = JSON.parse((await redis.get(keyOf(request.contextPtr))) ?? "null") as unknown;
    const jobId = String(request.jobId);
    await redis.set(`res/${jobId}`, JSON.stringify({ echoed: input }), "EX", 86_400);
    const jobResult = { jobId, status: 5, workerId: "echo-1", resultPtr: `redis://res/${jobId}`, executionMs: 3 };
    bus.publish("sys.job.result", packet("echo-1", { jobResult }));
  };
  bus.subscribe(topic, {
    queue: topic,
    callback: (_, message) => {
      const { jobRequest, traceId, senderId, protocolVersion } = wireDecode(message.data);
      // The SDK drops packets without these fields.
      if (!traceId || !senderId || protocolVersion !== 1) return;
      last = last.then(() => work(jobRequest as WirePacket));
    },
  });
  return executed;
}

/** Resolves with the packet about the job on the subject. */
function reported(subject: string, jobId: string): Promise<WirePacket> {
  return new Promise((resolve) => {
    const subscription = bus.subscribe(subject, {
      callback: (_, message) => {
        if (message.data[0] === 0x07) return; // A frame between control processes.
        const { jobResult } = wireDecode(message.data);
        if ((jobResult as WirePacket | undefined)?.jobId !== jobId) return;
        subscription.unsubscribe();
        resolve(jobResult as WirePacket);
      },
    });
  });
}

async function submit(jobId: string, request: object, input?: unknown): Promise<void> {
  const context = input === undefined ? {} : { contextPtr: `redis://ctx/${jobId}` };
  if (input !== undefined) await redis.set(`ctx/${jobId}`, JSON.stringify(input), "EX", 86_400);
  await bus.flush();
  bus.publish("sys.job.submit", packet("client-1", { jobRequest: { jobId, ...context, ...request } }));
}

test("the example client's jobs run on the example worker, each once, with and without an input", async () => {
  const executed = exampleWorker("job.echo");
  const ids = Array.from({ length: 10 }, (_, at) => `example-${at}`);
  const results = ids.map((jobId) => reported("sys.job.result", jobId));
  const env = { LOCALE: "de" };
  for (const [at, jobId] of ids.entries()) {
    await submit(jobId, { topic: "job.echo", env, adapterId: "echo" }, at === 0 ? undefined : { n: at });
  }
  for (const [at, result] of (await Promise.all(results)).entries()) {
    expect(result).toMatchObject({ status: 5, resultPtr: `redis://res/example-${at}` });
    expect(JSON.parse((await redis.get(`res/example-${at}`)) ?? "")).toEqual({ echoed: at === 0 ? null : { n: at } });
  }
  expect(executed.map(({ jobId }) => jobId).sort()).toEqual([...ids].sort());
  expect(executed[0]).toMatchObject({ topic: "job.echo", env, adapterId: "echo", tenantId: "default" });
});

test("a silent worker gets packets without extensions beside workers that ask for them", async () => {
  // Its id is no subject token, so its jobs are sent to the queue group.
  const capabilities = { direct: true, inline: true };
  const handshake = { componentId: "sdk.1", role: 3, supportedVersions: [1], readyTopics: ["job.mixed"], capabilities };
  bus.publish("sys.handshake", packet("sdk.1", { handshake }));
  await bus.flush();
  const executed = exampleWorker("job.mixed");
  const sent: Uint8Array[] = [];
  bus.subscribe("job.mixed", { callback: (_, message) => void sent.push(message.data) });
  const result = reported("sys.job.result", "mixed-1");
  await submit("mixed-1", { topic: "job.mixed" }, { n: 1 });
  expect(await result).toMatchObject({ status: 5 });
  expect(JSON.parse((await redis.get("res/mixed-1")) ?? "")).toEqual({ echoed: { n: 1 } });
  expect(executed).toMatchObject([{ jobId: "mixed-1", topic: "job.mixed", contextPtr: expect.any(String) }]);
  // The library drops fields that it does not know.
  expect(sent.map((bytes) => Buffer.from(bytes))).toEqual(
    sent.map((bytes) => Buffer.from(wireEncode(wireDecode(bytes)))),
  );
});

test("pointers with names of the client's and the worker's own are accepted; a result of another type is refused", async () => {
  const taken = (topic: string) =>
    new Promise<WirePacket>((resolve) => {
      bus.subscribe(topic, {
        queue: topic,
        callback: (_, message) => resolve(wireDecode(message.data).jobRequest as WirePacket),
      });
    });
  const request = taken("job.own");
  await redis.set("my-app/own-1/input.json", JSON.stringify({ n: 2 }));
  const own = { jobId: "own-1", topic: "job.own", contextPtr: "redis://my-app/own-1/input.json" };
  bus.publish("sys.job.submit", packet("client-1", { jobRequest: own }));
  const key = keyOf((await request).contextPtr);
  expect(JSON.parse((await redis.get(key)) ?? "")).toEqual({ n: 2 });
  await redis.rpush("my-app/own-1/output", "a list");
  const failed = reported("sys.job.dlq", "own-1");
  const jobResult = { jobId: "own-1", status: 5, workerId: "w", resultPtr: "redis://my-app/own-1/output" };
  bus.publish("sys.job.result", packet("w", { jobResult }));
  expect(await failed).toMatchObject({ status: 6, errorMessage: expect.stringContaining("is not a string") });
});

test("a worker of another protocol version gets no job, and its results are refused with the reason", async () => {
  const received: string[] = [];
  bus.subscribe("job.later", { queue: "job.later", callback: () => void received.push("job.later") });
  const alert = new Promise<WirePacket>((resolve) => {
    bus.subscribe("sys.alert", {
      callback: (_, message) => {
        const { alert } = wireDecode(message.data) as { alert?: WirePacket };
        if (alert?.code === "VERSION_MISMATCH") resolve(alert);
      },
    });
  });
  const handshake = { componentId: "later-1", role: 3, readyTopics: ["job.later"] };
  bus.publish("sys.handshake", packetOfVersion(2, "later-1", { handshake }));
  expect(await alert).toMatchObject({ component: "later-1", errorCodeEnum: 100 });
  await submit("later-1", { topic: "job.later" });

  // It took a job of another topic before its handshake.
  const taken = new Promise<WirePacket>((resolve) => {
    bus.subscribe("job.taken", {
      queue: "job.taken",
      callback: (_, message) => resolve(wireDecode(message.data).jobRequest as WirePacket),
    });
  });
  const failed = reported("sys.job.dlq", "taken-1");
  await submit("taken-1", { topic: "job.taken" });
  await taken;
  const jobResult = { jobId: "taken-1", status: 5, workerId: "later-1" };
  bus.publish("sys.job.result", packetOfVersion(2, "later-1", { jobResult }));
  expect(await failed).toMatchObject({ status: 6, errorMessage: expect.stringContaining("protocol version 2") });
  expect(received).toEqual([]);
});

test("the example client learns that its submission was refused, and cancels a job", async () => {
  const refused = reported("sys.job.dlq", "refused-1");
  await submit("refused-1", { topic: "job.echo", tenantId: "acme" });
  expect(await refused).toMatchObject({
    status: 11,
    errorCodeEnum: 202,
    errorMessage: expect.stringContaining("acme"),
  });

  const notice = new Promise<WirePacket>((resolve) => {
    bus.subscribe("sys.job.cancel", {
      callback: (_, message) => {
        const cancel = wireDecode(message.data).jobCancel as WirePacket;
        if (cancel.requestedBy !== "client-1") resolve(cancel);
      },
    });
  });
  const started = new Promise<void>((resolve) => {
    bus.subscribe("job.slow", { queue: "job.slow", callback: () => resolve() });
  });
  await submit("cancelled-1", { topic: "job.slow" });
  await started;
  const jobCancel = { jobId: "cancelled-1", reason: "not needed", requestedBy: "client-1" };
  bus.publish("sys.job.cancel", packet("client-1", { jobCancel }));
  expect(await notice).toMatchObject({
    jobId: "cancelled-1",
    reason: "not needed",
    requestedBy: "cordum/bus:client-1",
  });
});
