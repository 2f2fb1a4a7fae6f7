// Invalid input to a running control plane: each error says what is wrong and what to do.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SUBMIT } from "../../src/protocol/subjects.ts";
import { cordum } from "../cli/run.ts";
import { peerEncode } from "../protocol/peer.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";
import { Api } from "./api.ts";
import { Program } from "./program.ts";

let program: Program;
let nats: RunningServer;
let redis: RunningServer;
let dir: string;
let api: Api;
let key: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-bad-"));
  [program, nats, redis] = await Promise.all([Program.build(), startNats(), startRedis()]);
  const config = file("cordum.yaml", "pools: {agents: {topics: ['demo.*']}}\n");
  const argv = ["--demo", "--config", config, "--nats", nats.url, "--redis", redis.url, "--port", "0"];
  const open = new Api(await program.up(argv).url);
  key = (await open.post("/keys", { tenant: "*", role: "admin" })).body.key;
  api = open.as(key);
});

afterAll(async () => {
  // The control plane still works after all invalid requests.
  await api.ended(await api.submit("demo.echo", 1), "SUCCEEDED");
  await program.stop();
  await Promise.all([nats.stop(), redis.stop()]);
  rmSync(dir, { recursive: true, force: true });
});

function file(name: string, text: string): string {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
}

test("rejects a body that is not JSON", async () => {
  const { status, body } = await api.send("/jobs", '{"topic": demo.echo}');
  expect([status, body.code]).toEqual([400, "invalid_request"]);
  expect(body.detail).toMatch(/JSON/);
});

test("answers a body of 10 MB with 413 instead of closing the connection", async () => {
  const { status, body } = await api.send("/jobs", JSON.stringify({ topic: "demo.echo", input: "x".repeat(1e7) }));
  expect([status, body.code]).toEqual([413, "body_too_large"]);
  expect(body.detail).toBe("send a smaller body, or raise `http.body_bytes_max`");
});

test("rejects unknown fields and suggests similar names", async () => {
  const { status, body } = await api.post("/jobs", { topic: "demo.echo", inputt: 1, riskTags: [] });
  expect([status, body.code]).toEqual([400, "invalid_submission"]);
  expect(body.detail).toContain("did you mean `input`?");
  expect(body.detail).toContain("did you mean `risk_tags`?");
});

test("rejects a policy with an unknown key and keeps the current one", async () => {
  const before = (await api.get("/policy/rules")).body.snapshot;
  const text = "rules:\n  - {id: a, match: {topcs: [x]}, decision: allow, reason: r}\n";
  const problem = "2: unknown key `topcs`; did you mean `topics`?";
  const env = { CORDUM_URL: api.url, CORDUM_API_KEY: key };
  for (const argv of [
    ["policy", "check"],
    ["policy", "publish"],
  ]) {
    const ran = await cordum([...argv, file("policy.yaml", text)], env);
    expect(ran).toMatchObject({ exitCode: 2, err: expect.stringContaining(`policy.yaml:${problem}`) });
  }
  const { status, body } = await api.post("/policy/publish", { policy: text });
  expect([status, body.code]).toEqual([400, "invalid_policy"]);
  expect(body.detail).toContain(problem);
  expect((await api.get("/policy/rules")).body.snapshot).toBe(before);
});

test("rejects a topic without a pool and lists the pools", async () => {
  const { status, body } = await api.post("/jobs", { topic: "dmo.echo" });
  expect([status, body.code]).toEqual([400, "invalid_submission"]);
  expect(body.detail).toContain("no pool serves topic `dmo.echo`; pools are `agents` (demo.*)");
});

test("reports an expired key as expired, and a wrong one as invalid", async () => {
  const made = await api.post("/keys", { tenant: "default", role: "viewer", expires_in_ms: 1_000 });
  const mine = api.as(made.body.key);
  const { body } = await mine.until("/jobs", ({ status }) => status === 401);
  expect(body).toMatchObject({ code: "key_expired", detail: "ask an administrator for a new key" });
  const wrong = await api.as(`${made.body.key.slice(0, -4)}0000`).get("/jobs");
  expect(wrong).toMatchObject({ status: 401, body: { code: "key_invalid" } });
});

test("dead-letters an unsigned submit for another tenant", async () => {
  const bus = await connect({ servers: nats.url });
  const contextPtr = "redis://ctx:stolen";
  const jobRequest = { jobId: "stolen", topic: "demo.echo", tenantId: "acme", contextPtr };
  bus.publish(SUBMIT, peerEncode("BusPacket", { senderId: "client", protocolVersion: 1, jobRequest }));
  await bus.drain();
  const { body } = await api.until("/dlq", (answer) => answer.body.items.length > 0);
  expect(body.items[0]).toMatchObject({ source: "message", subject: SUBMIT, reason: "permanent" });
  expect(body.items[0].error.message).toContain(
    "an unsigned packet may not act for tenant `acme`; submit over HTTP with an API key of the tenant",
  );
  const acme = api.with({ "x-tenant-id": "acme" });
  expect((await acme.get("/jobs/stolen")).status).toBe(404);
  expect((await acme.get("/dlq")).body.items).toEqual([]);
});
