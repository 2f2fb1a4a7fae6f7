// The attacks of `payload-names.ts` on a cluster, with a third-party worker that reads its input from Redis and an unsigned
// bus client.
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { localSafety } from "../../src/adapters/node/local-safety.ts";
import { promMetrics } from "../../src/adapters/node/prom-metrics.ts";
import { JOBS } from "../../src/core/model/job.ts";
import { wireJobId } from "../../src/core/model/job-id.ts";
import { builtInKernel, DEMO_POLICY } from "../../src/core/policy/kernel.ts";
import { handleResult, handleSubmission } from "../../src/engine/delivery/index.ts";
import { type Engine, openEngine } from "../../src/engine/engine.ts";
import { type Control, startControl } from "../../src/engine/start-control.ts";
import { type GatewayServer, openGateway } from "../../src/gateway/server.ts";
import { decodePacket } from "../../src/protocol/codec.ts";
import { HEARTBEAT, RESULT, workSubject } from "../../src/protocol/subjects.ts";
import { startWorker } from "../../src/worker/worker.ts";
import { STARTUP_TOKEN, sendToken, TEST_LIMITS } from "../gateway/test-gateway.ts";
import { peerDecode, peerEncode } from "../protocol/peer.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";
import { openTestCluster } from "../system/fixtures/cluster.ts";
import {
  attackByName,
  expectDamageIsFound,
  expectUnchanged,
  MARK,
  namesIn,
  storeEveryKind,
  type Target,
  type Victims,
} from "./payload-names.ts";

let servers: readonly RunningServer[];
let raw: NatsConnection;
let redis: Redis;
let engine: Engine;
let control: Control;
let gateway: GatewayServer;
let target: Target;
let stops: readonly (() => Promise<void>)[];
/** Inputs as the third-party worker read them, by wire id. */
const received = new Map<string, unknown>();

beforeAll(async () => {
  servers = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
  const [nats, store] = servers;
  raw = await connect({ servers: `127.0.0.1:${nats?.port}` });
  redis = new Redis(store?.url ?? "");
  const opened = await openTestCluster({ nats: nats?.url ?? "", redis: store?.url ?? "", name: "c1" });
  const kernel = builtInKernel(DEMO_POLICY, "test");
  const { limits } = opened.settings;
  const settings = { ...opened.settings, limits: { ...limits, inlineBytesMax: 1_000 } };
  engine = openEngine({ ...opened.world, safety: localSafety(kernel) }, { current: settings }, kernel);
  control = await startControl(engine);
  const handle = async () => ({ secret: MARK, text: "y".repeat(300_000) });
  const stop = await startWorker(engine.world, { id: "w", topics: ["demo.large"], concurrency: 4, handle });
  serveFar();
  const info = {
    version: "0",
    profile: "p",
    mode: "cluster",
    durability: { profile: "p", meaning: "" },
    warnings: [],
  } as const;
  const parts = { engine, sweeper: control, metrics: promMetrics(), info, startupToken: STARTUP_TOKEN };
  gateway = openGateway(parts, TEST_LIMITS);
  sendToken(gateway.app);
  target = clusterTarget();
  stops = [() => gateway.stop(), stop, () => control.stop(), opened.close];
});

afterAll(async () => {
  for (const stop of stops) await stop();
  await raw.close();
  redis.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

/** A worker that knows only NATS and Redis: it reads what `context_ptr` names. */
function serveFar(): void {
  const subject = workSubject("demo.far");
  const work = async (data: Uint8Array) => {
    const { jobId, contextPtr } = peerDecode("BusPacket", data).jobRequest as Record<string, string>;
    const text = await redis.get(String(contextPtr).replace("redis://", ""));
    received.set(String(jobId), JSON.parse(text ?? "null"));
    const jobResult = { jobId, status: 5, workerId: "cap" };
    raw.publish(RESULT, peerEncode("BusPacket", { senderId: "cap", protocolVersion: 1, jobResult }));
  };
  raw.subscribe(subject, { queue: subject, callback: (_, { data }) => void work(data) });
}

function clusterTarget(): Target {
  const { store } = engine.world;
  return {
    async call(method, path, { tenant, body }) {
      const payload = body === undefined ? {} : { payload: body };
      const request = { method, url: `/api/v1${path}`, headers: { "x-tenant-id": tenant }, ...payload };
      const { statusCode: status, body: text } = await gateway.app.inject(request);
      return { status, text };
    },
    async payloads() {
      const keys = (await Promise.all(["cordum:payload:*", "ctx*", "res*"].map((like) => redis.keys(like)))).flat();
      const found = await Promise.all(
        keys.map(async (key) => [key, (await redis.getBuffer(key))?.toString("base64")] as const),
      );
      return new Map(found.flatMap(([key, text]) => (text === undefined ? [] : [[key, text]])));
    },
    async replace(key, bytes) {
      await redis.set(key, Buffer.from(bytes));
    },
    reached: (tenant, jobId, state) =>
      new Promise((resolve) => {
        const id = wireJobId(tenant, jobId);
        const check = async () => {
          if ((await store.load(JOBS, id))?.value.state === state) resolve();
        };
        engine.events.subscribe((update) => {
          if (update.jobId === id) void check();
        });
        void check();
      }),
    async publish(kind, body) {
      const status = body.status === "succeeded" ? { status: 5 } : {};
      const message = kind === "submit" ? { jobRequest: body } : { jobResult: { ...body, ...status } };
      const packet = decodePacket(peerEncode("BusPacket", { senderId: "evil", protocolVersion: 1, ...message }));
      const handled = kind === "submit" ? handleSubmission(engine, packet) : handleResult(engine, packet);
      await handled.catch(() => undefined);
    },
  };
}

describe("L59: no id and no pointer of a client names a stored payload of a cluster", () => {
  let victims: Victims;
  let before: ReadonlyMap<string, string>;

  beforeAll(async () => {
    victims = await storeEveryKind(target);
    for (const id of ["chosen", victims.ids[0] ?? ""]) await target.reached("acme", id, "SUCCEEDED");
    before = await target.payloads();
  });

  test("payloads are stored under their tenant and record, and reach the worker", () => {
    expect(before.size).toBeGreaterThanOrEqual(9);
    for (const key of before.keys()) expect(key).toMatch(/^cordum:payload:acme\/(job|run)\/[^/]+\/[0-9a-f]{64}$/);
    expect(received.get("acme~chosen")).toMatchObject({ secret: MARK });
  });

  test("every stored key and its parts, in every field of a client, in every tenant", async () => {
    for (const [index, name] of namesIn(before, victims).entries()) await attackByName(target, name, index);
    expectUnchanged(before, await target.payloads());
    const others = [...received].filter(
      ([id]) => !id.startsWith("acme~") && !victims.ids.some((own) => id.startsWith(own)),
    );
    expect(others.length).toBeGreaterThan(0);
    expect(JSON.stringify(others)).not.toContain(MARK);
  });

  test("a payload that was changed after the decision is neither leased nor dispatched", async () => {
    await expectDamageIsFound(target);
    const before = await target.payloads();
    const body = { topic: "demo.later", job_id: "later", input: { text: "x".repeat(5_000) } };
    await target.call("POST", "/jobs", { tenant: "acme", body });
    const key = [...(await target.payloads()).keys()].find((name) => !before.has(name)) ?? "";
    await redis.set(key, JSON.stringify({ text: "replaced" }));
    const failed = target.reached("acme", "later", "FAILED");
    let count = 0;
    raw.subscribe(workSubject("demo.later"), { callback: () => void count++ });
    const heartbeat = { workerId: "later", topics: ["demo.later"], maxParallelJobs: 1 };
    raw.publish(HEARTBEAT, peerEncode("BusPacket", { senderId: "later", protocolVersion: 1, heartbeat }));
    await failed;
    expect(count).toBe(0);
    expect((await engine.world.store.load(JOBS, "acme~later"))?.value.error).toMatchObject({ name: "InputLost" });
  });

  test("the approved payload is the one that is dispatched", async () => {
    const { status } = await target.call("POST", `/approvals/${victims.waiting}/approve`, { tenant: "acme", body: {} });
    expect(status).toBe(200);
    const body = { worker_id: "w1", topics: ["demo.approve"], max: 100, wait_ms: 5_000 };
    const { text } = await target.call("POST", "/worker/lease", { tenant: "acme", body });
    const jobs = JSON.parse(text).jobs as readonly { job_id: string; input: { secret?: string } }[];
    expect(jobs.find(({ job_id }) => job_id === victims.waiting)?.input.secret).toBe(MARK);
  });
});
