// A foreign CAP worker on plain NATS and Redis: a queue group on the topic, results on `sys.job.result`, payloads by
// pointer; without heartbeat, handshake and JetStream.
import { connect, headers, type Msg, type NatsConnection } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { DEAD_LETTERS, type DeadLetter, deadLettersOf } from "../../../src/core/model/dead-letter.ts";
import { isFinal, JOBS, type Job } from "../../../src/core/model/job.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
import { type Control, startControl } from "../../../src/engine/start-control.ts";
import {
  ALERT,
  CANCEL,
  CHANGED,
  DLQ,
  directSubject,
  EVENTS,
  HANDSHAKE,
  HEARTBEAT,
  PROGRESS,
  RESULT,
  SUBMIT,
  workSubject,
} from "../../../src/protocol/subjects.ts";
import { startWorker } from "../../../src/worker/worker.ts";
import { peerDecode, peerEncode } from "../../protocol/peer.ts";
import type { RunningServer } from "../../servers/server.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { openTestCluster } from "../fixtures/cluster.ts";

let servers: readonly RunningServer[];
let raw: NatsConnection;
let redis: Redis;
let engine: Engine;
let control: Control;
let close: () => Promise<void>;
const ends = new Map<string, (job: Job) => void>();

beforeAll(async () => {
  servers = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const [nats, store] = servers;
  raw = await connect({ servers: `127.0.0.1:${nats?.port}` });
  redis = new Redis(store?.url ?? "");
  const opened = await openTestCluster({ nats: nats?.url ?? "", redis: store?.url ?? "", name: "c1" });
  const bus = { ...opened.settings.bus, poisonDelayMs: 50 };
  engine = openEngine(opened.world, { current: { ...opened.settings, bus } });
  engine.events.subscribe(({ jobId, state }) => {
    if (!isFinal(state)) return;
    void opened.world.store.load(JOBS, jobId).then((found) => found && ends.get(jobId)?.(found.value));
  });
  control = await startControl(engine);
  close = opened.close;
});

afterAll(async () => {
  await control.stop();
  await close();
  await raw.close();
  redis.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

/** Submits a job and resolves when it has ended. */
async function submit(raw: Record<string, unknown>): Promise<Job> {
  const checked = checkSubmission(raw);
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  const jobId = checked.submission.jobId ?? "";
  const ended = new Promise<Job>((resolve) => ends.set(jobId, resolve));
  await admitJob(engine, checked.submission);
  return ended;
}

interface Received {
  readonly packet: Record<string, unknown>;
  readonly request: Record<string, unknown>;
  readonly traceparent: string | undefined;
}

/** Serves a topic until `stop`. The output of `work` is written to Redis and sent as the result; undefined sends none. */
function serve(
  subject: string,
  work: (received: Received, nth: number) => unknown,
): { received: Received[]; stop(): void } {
  const received: Received[] = [];
  const handle = async (message: Msg) => {
    const packet = peerDecode("BusPacket", message.data);
    const request = packet.jobRequest as Record<string, unknown>;
    const one = { packet, request, traceparent: message.headers?.get("traceparent") };
    const output = work(one, received.push(one));
    if (output === undefined) return;
    const jobId = String(request.jobId);
    await redis.set(`res:${jobId}`, JSON.stringify(output), "EX", 86_400);
    // Many foreign workers send neither trace id nor time.
    const jobResult = { jobId, status: 5, workerId: "cap", resultPtr: `redis://res:${jobId}`, executionMs: 1 };
    const fields = headers();
    if (one.traceparent) fields.set("traceparent", one.traceparent);
    raw.publish(RESULT, peerEncode("BusPacket", { senderId: "cap", protocolVersion: 1, jobResult }), {
      headers: fields,
    });
  };
  const subscription = raw.subscribe(subject, { queue: subject, callback: (_, message) => void handle(message) });
  return { received, stop: () => subscription.unsubscribe() };
}

const inputOf = async ({ request }: Received) => {
  const key = String(request.contextPtr).replace(/^redis:\/\//, "");
  return JSON.parse((await redis.get(key)) ?? "null") as unknown;
};

describe("foreign worker on NATS", () => {
  test("runs jobs with payload pointers, all request fields and the trace header", async () => {
    const worker = serve("job.echo", ({ request }) => ({ echoed: request.jobId }));
    const traceparent = `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`;
    const facts = { labels: { team: "x" }, actorId: "ann", priority: "critical", riskTags: ["net"], traceparent };
    const job = await submit({ jobId: "cap-1", topic: "echo", input: { text: "hällo" }, ...facts });
    worker.stop();
    expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 1, workerId: "cap", output: { kind: "pointer" } });
    expect(worker.received.length).toBe(1);
    const [got] = worker.received;
    if (!got) throw new Error("no request was sent");
    expect(await inputOf(got)).toEqual({ text: "hällo" });
    expect(got.packet).toMatchObject({ traceId: "cap-1", senderId: "c1", protocolVersion: 1 });
    expect(Number((got.packet.createdAt as { seconds: string }).seconds)).toBeGreaterThan(1_700_000_000);
    expect(got.request).toMatchObject({
      jobId: "cap-1",
      topic: workSubject("echo"),
      contextPtr: expect.stringMatching(/^redis:\/\/cordum:payload:default\/job\/cap-1\/[0-9a-f]{64}$/),
      priority: 3,
      tenantId: "default",
      principalId: "ann",
      labels: { team: "x" },
      meta: { tenantId: "default", actorId: "ann", riskTags: ["net"], labels: { team: "x" } },
    });
    expect(got.traceparent).toBe(traceparent);
  });

  test("a job without a worker runs when a worker subscribes, without a heartbeat", async () => {
    const requeued = new Promise<void>((resolve) => {
      const stop = engine.events.subscribe(({ jobId, state }) => {
        if (jobId !== "cap-early" || state !== "SCHEDULED") return;
        stop();
        resolve();
      });
    });
    const done = submit({ jobId: "cap-early", topic: "early", input: 1 });
    await requeued;
    const worker = serve("job.early", () => "late but there");
    const job = await done;
    worker.stop();
    // The missing worker is detected at dispatch, so no attempt is lost.
    expect(job.history.map(({ event }) => event)).toEqual(["succeeded"]);
  });

  test("redispatches the job of a crashed worker after the dispatch deadline", async () => {
    const worker = serve("job.mortal", (_, nth) => (nth === 1 ? undefined : "second attempt"));
    const job = await submit({ jobId: "cap-2", topic: "mortal", input: 1 });
    worker.stop();
    expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 2 });
    expect(worker.received.length).toBe(2);
    expect(job.history.map(({ event }) => event)).toEqual(["lost", "succeeded"]);
  });

  test("ignores a second result and a result of an unknown job", async () => {
    const worker = serve("job.twice", () => "first");
    const job = await submit({ jobId: "cap-3", topic: "twice" });
    worker.stop();
    const publish = (jobId: string, status: number) =>
      raw.publish(
        RESULT,
        peerEncode("BusPacket", { jobResult: { jobId, status, workerId: "other", errorMessage: "no" } }),
      );
    publish("cap-3", 11);
    publish("unknown-job", 5);
    const after = serve("job.after", () => "after");
    await submit({ jobId: "cap-4", topic: "after" });
    after.stop();
    expect((await engine.world.store.load(JOBS, "cap-3"))?.value).toEqual(job);
  });

  test("a bus client can submit for the default tenant only", async () => {
    const worker = serve("job.client", () => "done");
    const ended = new Promise<Job>((resolve) => ends.set("cap-5", resolve));
    const publish = (jobId: string, tenantId: string) => {
      const jobRequest = { jobId, topic: "job.client", tenantId, contextPtr: `redis://ctx:${jobId}` };
      raw.publish(SUBMIT, peerEncode("BusPacket", { senderId: "client", protocolVersion: 1, jobRequest }));
    };
    await redis.set("ctx:cap-5", JSON.stringify({ from: "the bus" }));
    const refused = deadLetterWhere(({ error }) => error.message.includes("`acme`"));
    publish("cap-6", "acme");
    publish("cap-5", "");
    expect(await ended).toMatchObject({ state: "SUCCEEDED", org: "default", submittedBy: "bus:client" });
    worker.stop();
    expect(await Promise.all(worker.received.map(inputOf))).toEqual([{ from: "the bus" }]);
    expect((await refused).error.message).toContain("cap.unsigned_tenants");
    expect(await engine.world.store.load(JOBS, "cap-6")).toBeNull();
  });
});

describe("undecodable packets", () => {
  test.each([SUBMIT, RESULT])("on %s are dead-lettered with their bytes after the third delivery", async (subject) => {
    const bytes = Buffer.from(`nonsense on ${subject}`);
    const deadLetter = deadLetterWhere(
      ({ source }) =>
        source.kind === "message" && source.subject === subject && source.base64 === bytes.toString("base64"),
    );
    const worker = serve("job.neighbour", () => "unharmed");
    raw.publish(subject, bytes);
    const job = await submit({ jobId: `neighbour-${subject}`, topic: "neighbour" });
    expect(job.state).toBe("SUCCEEDED");
    expect(await deadLetter).toMatchObject({ reason: "undecodable", source: { deliveries: 4 } });
    worker.stop();
  });

  test("on subjects without storage are dropped, and valid packets are still handled", async () => {
    for (const subject of [HEARTBEAT, HANDSHAKE, PROGRESS, CANCEL, EVENTS, CHANGED, ALERT, DLQ]) {
      raw.publish(subject, Buffer.from("nonsense"));
      raw.publish(subject, peerEncode("BusPacket", { handshake: { componentId: "not what belongs here", role: 1 } }));
    }
    raw.publish(HEARTBEAT, peerEncode("BusPacket", { heartbeat: { workerId: "good", pool: "p" } }));
    await raw.flush();
    const worker = serve("job.heard", () => "yes");
    await submit({ jobId: "heard", topic: "heard" });
    worker.stop();
    expect(engine.registry.list(engine.world.clock.now()).map(({ id }) => id)).toEqual(["good"]);
  });
});

test("a worker drops undecodable packets and runs the next job", async () => {
  const handle = async () => "unharmed";
  const stop = await startWorker(engine.world, { id: "ours", topics: ["sdk"], concurrency: 1, handle });
  for (const subject of [workSubject("sdk"), directSubject("ours")]) raw.publish(subject, Buffer.from("nonsense"));
  await raw.flush();
  const job = await submit({ jobId: "after-nonsense", topic: "sdk" });
  expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 1, output: { value: "unharmed" } });
  await stop();
});

/** Resolves when a matching dead letter exists. */
function deadLetterWhere(matches: (one: DeadLetter) => boolean): Promise<DeadLetter> {
  return new Promise((resolve, reject) => {
    const poll = async () => {
      const { items } = await engine.world.store.list(DEAD_LETTERS, { index: deadLettersOf("*"), limit: 50 });
      const found = items.find(({ value }) => matches(value));
      if (found) resolve(found.value);
      else engine.world.clock.after(20, () => void poll().catch(reject));
    };
    poll().catch(reject);
  });
}
