// A worker as others write them, played on plain NATS and plain Redis: a queue group on the topic, results on
// `sys.job.result`, payloads by pointer; no heartbeat, no handshake, no JetStream.
import { connect, headers, type Msg, type NatsConnection } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { checkSubmission } from "../../../src/core/jobs/submission.ts";
import { DEAD_LETTERS, type DeadLetter, deadLettersOf } from "../../../src/core/model/dead-letter.ts";
import { isFinal, JOBS, type Job } from "../../../src/core/model/job.ts";
import { type Control, startControl } from "../../../src/engine/control.ts";
import { type Engine, openEngine } from "../../../src/engine/engine.ts";
import { admitJob } from "../../../src/engine/intake/admit-job.ts";
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
import { openHurriedCluster } from "../fixtures/cluster.ts";

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
  const opened = await openHurriedCluster({ nats: nats?.url ?? "", redis: store?.url ?? "", name: "c1" });
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

/** Submits, and resolves when the job has ended. */
async function submit(raw: Record<string, unknown>): Promise<Job> {
  const checked = checkSubmission(raw);
  if (checked.kind === "bad") throw new Error(checked.problems.join());
  const jobId = checked.submission.jobId ?? "";
  const ended = new Promise<Job>((resolve) => ends.set(jobId, resolve));
  await admitJob(engine, checked.submission);
  return ended;
}

interface Got {
  readonly packet: Record<string, unknown>;
  readonly request: Record<string, unknown>;
  readonly traceparent: string | undefined;
}

/** Serves a topic until it is told to stop. What `work` answers is written to Redis and sent as the result. */
function serve(subject: string, work: (got: Got, nth: number) => unknown): { got: Got[]; stop(): void } {
  const got: Got[] = [];
  const answer = async (message: Msg) => {
    const packet = peerDecode("BusPacket", message.data);
    const request = packet.jobRequest as Record<string, unknown>;
    const one = { packet, request, traceparent: message.headers?.get("traceparent") };
    const output = work(one, got.push(one));
    if (output === undefined) return; // It has died.
    const jobId = String(request.jobId);
    await redis.set(`res:${jobId}`, JSON.stringify(output), "EX", 86_400);
    // No trace id, no time: many send neither.
    const jobResult = { jobId, status: 5, workerId: "cap", resultPtr: `redis://res:${jobId}`, executionMs: 1 };
    const fields = headers();
    if (one.traceparent) fields.set("traceparent", one.traceparent);
    raw.publish(RESULT, peerEncode("BusPacket", { senderId: "cap", protocolVersion: 1, jobResult }), {
      headers: fields,
    });
  };
  const subscription = raw.subscribe(subject, { queue: subject, callback: (_, message) => void answer(message) });
  return { got, stop: () => subscription.unsubscribe() };
}

const inputOf = async ({ request }: Got) => {
  const key = String(request.contextPtr).replace(/^redis:\/\//, "");
  return JSON.parse((await redis.get(key)) ?? "null") as unknown;
};

describe("a worker of others on NATS", () => {
  test("does jobs unchanged: input and result by pointer, every field that it needs, the trace as a header", async () => {
    const worker = serve("job.echo", ({ request }) => ({ echoed: request.jobId }));
    const traceparent = `00-${"ab".repeat(16)}-${"cd".repeat(8)}-01`;
    const facts = { labels: { team: "x" }, actorId: "ann", priority: "critical", riskTags: ["net"], traceparent };
    const job = await submit({ jobId: "cap-1", topic: "echo", input: { text: "hällo" }, ...facts });
    worker.stop();
    expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 1, workerId: "cap", output: { ptr: "res:cap-1" } });
    expect(worker.got.length).toBe(1);
    const [got] = worker.got;
    if (!got) throw new Error("nothing was sent");
    expect(await inputOf(got)).toEqual({ text: "hällo" });
    expect(got.packet).toMatchObject({ traceId: "cap-1", senderId: "c1", protocolVersion: 1 });
    expect(Number((got.packet.createdAt as { seconds: string }).seconds)).toBeGreaterThan(1_700_000_000);
    expect(got.request).toMatchObject({
      jobId: "cap-1",
      topic: "echo",
      contextPtr: "redis://ctx:cap-1",
      priority: 3,
      tenantId: "default",
      principalId: "ann",
      labels: { team: "x" },
      meta: { tenantId: "default", actorId: "ann", riskTags: ["net"], labels: { team: "x" } },
    });
    expect(got.traceparent).toBe(traceparent);
  });

  test("a job submitted before anybody serves its topic is done when somebody does, without a word of him", async () => {
    const givenBack = new Promise<void>((resolve) => {
      const stop = engine.events.subscribe(({ jobId, state }) => {
        if (jobId !== "cap-early" || state !== "SCHEDULED") return;
        stop();
        resolve();
      });
    });
    const done = submit({ jobId: "cap-early", topic: "early", input: 1 });
    await givenBack;
    const worker = serve("job.early", () => "late but there");
    const job = await done;
    worker.stop();
    // No attempt was lost: it was known at once that nobody was there.
    expect(job.history.map(({ event }) => event)).toEqual(["succeeded"]);
  });

  test("one that dies with a job loses no job: it is sent again after the dispatch deadline, and ends once", async () => {
    const worker = serve("job.mortal", (_, nth) => (nth === 1 ? undefined : "second life"));
    const job = await submit({ jobId: "cap-2", topic: "mortal", input: 1 });
    worker.stop();
    expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 2 });
    expect(worker.got.length).toBe(2);
    expect(job.history.map(({ event }) => event)).toEqual(["lost", "succeeded"]);
  });

  test("a second result, and one of a job that nobody knows, change nothing", async () => {
    const worker = serve("job.twice", () => "first");
    const job = await submit({ jobId: "cap-3", topic: "twice" });
    worker.stop();
    const publish = (jobId: string, status: number) =>
      raw.publish(
        RESULT,
        peerEncode("BusPacket", { jobResult: { jobId, status, workerId: "other", errorMessage: "no" } }),
      );
    publish("cap-3", 11);
    publish("nobody-knows", 5);
    const after = serve("job.after", () => "after");
    await submit({ jobId: "cap-4", topic: "after" });
    after.stop();
    expect((await engine.world.store.load(JOBS, "cap-3"))?.value).toEqual(job);
  });

  test("a client of the bus submits for the default tenant, and for no other", async () => {
    const worker = serve("job.client", () => "done");
    const ended = new Promise<Job>((resolve) => ends.set("cap-5", resolve));
    const publish = (jobId: string, tenantId: string) => {
      const jobRequest = { jobId, topic: "job.client", tenantId, contextPtr: `redis://ctx:${jobId}` };
      raw.publish(SUBMIT, peerEncode("BusPacket", { senderId: "client", protocolVersion: 1, jobRequest }));
    };
    await redis.set("ctx:cap-5", JSON.stringify({ from: "the bus" }));
    const refused = letterWhere(({ error }) => error.message.includes("`acme`"));
    publish("cap-6", "acme");
    publish("cap-5", "");
    expect(await ended).toMatchObject({ state: "SUCCEEDED", org: "default", submittedBy: "bus:client" });
    worker.stop();
    expect(worker.got.map(({ request }) => request.contextPtr)).toEqual(["redis://ctx:cap-5"]);
    expect((await refused).error.message).toContain("cap.unsigned_tenants");
    expect(await engine.world.store.load(JOBS, "cap-6")).toBeNull();
  });
});

describe("packets that nobody can read", () => {
  test.each([SUBMIT, RESULT])("on %s go to the dead letters with their bytes after the third try", async (subject) => {
    const bytes = Buffer.from(`nonsense on ${subject}`);
    const letter = letterWhere(
      ({ source }) =>
        source.kind === "message" && source.subject === subject && source.base64 === bytes.toString("base64"),
    );
    const worker = serve("job.neighbour", () => "unharmed");
    raw.publish(subject, bytes);
    const job = await submit({ jobId: `neighbour-${subject}`, topic: "neighbour" });
    expect(job.state).toBe("SUCCEEDED");
    expect(await letter).toMatchObject({ reason: "undecodable", source: { deliveries: 4 } });
    worker.stop();
  });

  test("on subjects that are only listened to are dropped, and the next good one is heard", async () => {
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

test("a worker that is sent nonsense drops it, and does the next job", async () => {
  const handle = async () => "unharmed";
  const stop = await startWorker(engine.world, { id: "ours", topics: ["sdk"], concurrency: 1, handle });
  for (const subject of [workSubject("sdk"), directSubject("ours")]) raw.publish(subject, Buffer.from("nonsense"));
  await raw.flush();
  const job = await submit({ jobId: "after-nonsense", topic: "sdk" });
  expect(job).toMatchObject({ state: "SUCCEEDED", attempt: 1, output: { value: "unharmed" } });
  await stop();
});

/** Resolves when such a letter is written. */
function letterWhere(isIt: (letter: DeadLetter) => boolean): Promise<DeadLetter> {
  return new Promise((resolve, reject) => {
    const look = async () => {
      const { items } = await engine.world.store.list(DEAD_LETTERS, { index: deadLettersOf("*"), limit: 50 });
      const found = items.find(({ value }) => isIt(value));
      if (found) resolve(found.value);
      else engine.world.clock.after(20, () => void look().catch(reject));
    };
    look().catch(reject);
  });
}
