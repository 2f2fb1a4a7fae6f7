import { connect } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cordum } from "../cli/run.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";
import { Api } from "./api.ts";
import { Program } from "./program.ts";

let nats: RunningServer;
let redis: RunningServer;
let operator: Redis;
let program: Program;

beforeAll(async () => {
  [nats, redis, program] = await Promise.all([startNats(), startRedis(), Program.build()]);
  operator = new Redis(redis.url);
  operator.on("error", () => undefined); // One test restarts the server.
});
afterAll(async () => {
  operator.disconnect();
  await program.stop();
  await Promise.all([nats.stop(), redis.stop()]);
});

const servers = () => ["--port", "0", "--nats", nats.url, "--redis", redis.url];

describe("a process beside data of a newer schema", () => {
  test("is not ready, refuses work, and recovers when the schema is restored", async () => {
    const api = new Api(await program.up([...servers(), "--demo"]).url);
    const request = { topic: "demo.echo", input: 1, idempotency_key: "before" };
    const before = await api.post("/jobs", request);
    expect(before.status).toBeLessThan(300);
    await operator.set("cordum:schema", "3");
    const records = await recordKeys();
    const refused = await readiness(api.url, false);
    expect(refused).toMatchObject({ code: "not_ready", detail: expect.stringContaining("schema `3`") });
    expect(refused.detail).toContain("upgrade this process");
    expect(await api.post("/jobs", { ...request, idempotency_key: "during" })).toMatchObject({ status: 503 });
    expect(await api.post("/jobs", request)).toMatchObject({ status: 503 });
    expect(await recordKeys()).toEqual(records);
    await operator.set("cordum:schema", "2");
    await readiness(api.url, true);
    expect(await api.post("/jobs", request)).toMatchObject({ body: { job_id: before.body.job_id, replayed: true } });
  });

  test.each(["gateway", "control", "all"])("does not start in role %s, and names the next step", async (role) => {
    await operator.set("cordum:schema", "3");
    const ran = await program.up([...servers(), "--role", role]).ended;
    await operator.set("cordum:schema", "2");
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toMatch(/schema `3`, this version of cordum uses schema 2: upgrade this process/);
  });
});

test("acknowledged writes that redis lost are reported by status, doctor and an alert", async () => {
  const [client, up] = [await connect({ servers: nats.url }), program.up(servers())];
  const alert = client.subscribe("sys.alert", { max: 1 })[Symbol.asyncIterator]().next();
  const api = new Api(await up.url);
  await operator.save();
  await api.post("/jobs", { topic: "demo.lost", input: 1 });
  await redis.restart();
  const { value: message } = await alert;
  expect(message?.string()).toContain("went back in time");
  let { body } = await api.get("/status");
  // Another process may have sent the alert.
  while (!body.servers?.redis.went_back_at) ({ body } = await api.get("/status"));
  expect(body.warnings.join()).toContain("went back in time");
  const doctor = await cordum(["doctor", "--json"], { CORDUM_URL: api.url });
  expect(doctor.exitCode).toBe(1);
  expect(doctor.out).toContain("redis_went_back");
  await client.close();
});

const recordKeys = async (): Promise<readonly string[]> => (await operator.keys("cordum:r:*")).sort();

/** Polls `/readyz` until the process notices the change. */
async function readiness(url: string, isReady: boolean): Promise<{ readonly detail?: string }> {
  for (;;) {
    const response = await fetch(`${url}/readyz`);
    const body = (await response.json()) as { readonly detail?: string };
    if (response.ok === isReady) return body;
  }
}
