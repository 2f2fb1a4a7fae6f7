// Enforced signatures with real processes and servers. Foreign clients and workers use node's crypto and plain NATS, without
// code of this project.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Stop } from "../../src/ports/bus.ts";
import { HEARTBEAT, RESULT, SUBMIT } from "../../src/protocol/subjects.ts";
import { nats as overNats, worker } from "../../src/worlds/worker-sdk.ts";
import { signer, submitBytes } from "../adapters/node/signers.ts";
import { cordum, tokenHeader, type UpProcess } from "../cli/run.ts";
import { Ups } from "../cli/up/ups.ts";
import { peerEncode } from "../protocol/peer.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";

const ups = new Ups("signatures");
const [house, sdk, client] = [signer(), signer(), signer()];
let nats: RunningServer;
let redis: RunningServer;
let raw: NatsConnection;
let store: Redis;

beforeAll(async () => {
  [nats, redis] = await Promise.all([startNats(), startRedis()]);
  raw = await connect({ servers: `127.0.0.1:${nats.port}` });
  store = new Redis(redis.url);
});

afterAll(async () => {
  await raw.close();
  store.disconnect();
  await Promise.all([nats.stop(), redis.stop()]);
});

const servers = () => ["--nats", nats.url, "--redis", redis.url, "--demo", "--port", "0"];
const file = (name: string) => join(ups.dir, name);

function writeConfig(tenants: string, signatures = "enforce"): void {
  const senders = `{sdk: {key: ${file("sdk.pem")}}, client: {key: ${file("client.pem")}, tenants: ${tenants}}}`;
  const cap = `cap: {signatures: ${signatures}, key: ${file("house.pem")}, senders: ${senders}}`;
  writeFileSync(file("cordum.yaml"), `${cap}\nretry: {poison: {policy: "fixed:50ms"}}\n`);
}

beforeEach(() => {
  writeFileSync(file("house.pem"), house.privatePem);
  writeFileSync(file("sdk.pem"), sdk.publicPem);
  writeFileSync(file("client.pem"), client.publicPem);
  writeConfig("[acme]");
});

interface Plane {
  readonly control: UpProcess;
  readonly controlUrl: string;
  readonly env: { readonly CORDUM_URL: string };
}

/** A gateway and a control process, which communicate over the bus. */
async function plane(...more: readonly string[]): Promise<Plane> {
  const up = (role: string) => ups.start(["--role", role, "--config", file("cordum.yaml"), ...servers(), ...more]);
  const [gateway, control] = [up("gateway"), up("control")];
  const [url, controlUrl] = await Promise.all([gateway.url, control.url]);
  return { control, controlUrl, env: { CORDUM_URL: url } };
}

async function until<T>(read: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read();
    if (isDone(value)) return value;
  }
}

const job = async ({ env }: Plane, id: string, tenant = "default") =>
  JSON.parse((await cordum(["job", "get", id, "--json"], { ...env, CORDUM_TENANT: tenant })).out || "{}");

interface DeadLetterView {
  readonly id: string;
  readonly reason: string;
  readonly subject?: string;
  readonly error: { readonly code?: string; readonly message: string };
}

const deadLetters = async ({ env }: Plane): Promise<readonly DeadLetterView[]> =>
  JSON.parse((await cordum(["dlq", "list", "--json"], env)).out).items;

const deadLetterWhere = async (at: Plane, matches: (one: DeadLetterView) => boolean): Promise<DeadLetterView> =>
  (
    await until(
      () => deadLetters(at),
      (all) => all.some(matches),
    )
  ).find(matches) as DeadLetterView;

const metricsAt = async (url: string): Promise<string> =>
  (await fetch(`${url}/metrics`, { headers: tokenHeader(url) })).text();

async function failuresAt(url: string): Promise<readonly string[]> {
  const text = await metricsAt(url);
  return text.split("\n").filter((line) => line.startsWith("cordum_bus_signature_failures_total{"));
}

const sdkWorker = (topics: string[], keys: { key?: string; controlKey?: string }, id = "sdk"): Promise<Stop> =>
  worker({
    id,
    topics,
    handle: async ({ input }) => input,
    transport: overNats({ nats: nats.url, redis: redis.url, ...keys }),
  });

async function submitOnBus(bytes: Uint8Array, jobId: string): Promise<void> {
  await store.set(`ctx:${jobId}`, JSON.stringify({ from: "the bus" }));
  raw.publish(SUBMIT, bytes);
  await raw.flush();
}

describe("`cap.signatures: enforce`", () => {
  test("accepts all packets of own processes and of a worker with a key", async () => {
    // With a remote kernel the gateway announces its jobs on the bus.
    const kernel = ups.start(["--role", "safety", "--demo", "--port", "0"]);
    const at = await plane("--safety", await kernel.url);
    const stop = await sdkWorker(["signed"], { key: sdk.privatePem, controlKey: house.publicPem });
    for (const topic of ["signed", "demo.flaky"]) {
      const ran = await cordum(["job", "submit", topic, '{"n":1}', "--wait", "--json"], at.env);
      expect(JSON.parse(ran.out)).toMatchObject({ state: "SUCCEEDED" });
    }
    const workers = JSON.parse((await cordum(["worker", "list", "--json"], at.env)).out);
    expect(JSON.stringify(workers)).toContain('"sdk"');
    await stop();
    expect(await deadLetters(at)).toEqual([]);
    expect([...(await failuresAt(at.env.CORDUM_URL)), ...(await failuresAt(at.controlUrl))]).toEqual([]);
    expect(await metricsAt(at.controlUrl)).toMatch(/\{subject="sys\.job\.submit",action="ack"\} [2-9]/);
    const doctor = JSON.parse((await cordum(["doctor", "--json"], at.env)).out);
    expect(JSON.stringify(doctor.findings)).not.toContain("cap.signatures");
  });

  test("accepts submits for the tenants of a sender, and dead-letters changed, foreign and unsigned ones", async () => {
    const at = await plane();
    const stop = await sdkWorker(["bus"], { key: sdk.privatePem, controlKey: house.publicPem });
    const submit = (jobId: string, tenant: string) => submitBytes("client", jobId, tenant, "bus");
    // The wire id: an input of another tenant cannot have this name.
    await submitOnBus(client.sign(submit("acme~good", "acme")), "acme~good");
    const done = await until(
      () => job(at, "good", "acme"),
      ({ state }) => state === "SUCCEEDED",
    );
    expect(done).toMatchObject({ submitted_by: "bus:client", result: { from: "the bus" } });

    const changed = client.sign(submit("changed", "acme"));
    changed.set(Buffer.from("axme"), Buffer.from(changed).indexOf("acme"));
    await submitOnBus(changed, "changed");
    await submitOnBus(sdk.sign(submit("stolen", "acme")), "stolen");
    await submitOnBus(submit("unsigned", "default"), "unsigned");
    const all = await until(
      () => deadLetters(at),
      ({ length }) => length === 3,
    );
    expect(all.map(({ reason }) => reason)).toEqual(["permanent", "permanent", "permanent"]);
    expect(all.map(({ error }) => error.code).sort()).toEqual([
      "SIGNATURE_INVALID",
      "SIGNATURE_INVALID",
      "SIGNATURE_MISSING",
    ]);

    // A submit for another tenant is accepted after the configuration allows it and the dead letter is redriven.
    await submitOnBus(client.sign(submit("birch~birch-1", "birch")), "birch~birch-1");
    const refusedSubmit = await deadLetterWhere(at, ({ error }) => error.message.includes("`birch`"));
    expect(refusedSubmit.error.message).toContain("`cap.senders.client.tenants`");
    writeConfig("[acme, birch]");
    await at.control.printed("config_reloaded");
    expect(await cordum(["dlq", "retry", refusedSubmit.id], at.env)).toMatchObject({ exitCode: 0 });
    await until(
      () => job(at, "birch-1", "birch"),
      ({ state }) => state === "SUCCEEDED",
    );
    await stop();
    for (const id of ["changed", "stolen", "unsigned"]) expect(await job(at, id)).not.toHaveProperty("state");
  });

  test("rejects unsigned results, ignores unsigned heartbeats, and keeps undecodable bytes", async () => {
    const at = await plane();
    const got = new Promise<void>((resolve) => {
      raw.subscribe("job.foreign", { queue: "job.foreign", max: 1, callback: () => resolve() });
    });
    await raw.flush();
    const { job_id } = JSON.parse((await cordum(["job", "submit", "foreign", "--json"], at.env)).out);
    await got;
    const jobResult = { jobId: job_id, status: 5, workerId: "client" };
    const unsigned = peerEncode("BusPacket", { senderId: "client", protocolVersion: 1, jobResult });
    raw.publish(RESULT, unsigned);
    const refused = await deadLetterWhere(
      at,
      ({ subject, error }) => subject === RESULT && error.code === "SIGNATURE_MISSING",
    );
    expect(refused.error.message).toContain("sender `client` is not signed");
    expect(await job(at, job_id)).toMatchObject({ state: expect.stringMatching(/^(DISPATCHED|RUNNING)$/) });
    // The client may not act for the tenant of this job; the worker may work for all tenants.
    raw.publish(RESULT, client.sign(unsigned));
    const foreign = await deadLetterWhere(at, ({ error }) => error.code === "PERMISSION_DENIED");
    expect(foreign.error.message).toContain("`cap.senders.client.tenants`");
    raw.publish(RESULT, sdk.sign(peerEncode("BusPacket", { senderId: "sdk", protocolVersion: 1, jobResult })));
    await until(
      () => job(at, job_id),
      ({ state }) => state === "SUCCEEDED",
    );

    raw.publish(HEARTBEAT, peerEncode("BusPacket", { heartbeat: { workerId: "ghost" } }));
    raw.publish(SUBMIT, Buffer.from("nonsense"));
    const kept = await deadLetterWhere(at, ({ reason }) => reason === "undecodable");
    const shown = JSON.parse((await cordum(["dlq", "show", kept.id], at.env)).out);
    expect(shown).toMatchObject({ base64: Buffer.from("nonsense").toString("base64"), deliveries: 4 });
    const workers = JSON.parse((await cordum(["worker", "list", "--json"], at.env)).out);
    expect(JSON.stringify(workers)).not.toContain("ghost");
    expect(await failuresAt(at.controlUrl)).toEqual(
      expect.arrayContaining([
        `cordum_bus_signature_failures_total{subject="${RESULT}",reason="missing"} 1`,
        `cordum_bus_signature_failures_total{subject="${HEARTBEAT}",reason="missing"} 1`,
      ]),
    );
  });
});

test("a worker with the control key ignores packets of other senders", async () => {
  writeConfig("[acme]", "off");
  const at = await plane();
  const impostor = signer();
  const stop = await sdkWorker(["careful"], { key: sdk.privatePem, controlKey: house.publicPem }, "careful");
  const published: string[] = [];
  const results = raw.subscribe(RESULT, {
    callback: (_, { data }) => void published.push(Buffer.from(data).toString("latin1")),
  });
  const work = submitBytes("control", "forged", "default", "careful");
  for (const bytes of [work, impostor.sign(work)]) raw.publish("job.careful", bytes);
  await raw.flush();
  const ran = await cordum(["job", "submit", "careful", "1", "--wait", "--json"], at.env);
  expect(JSON.parse(ran.out)).toMatchObject({ state: "SUCCEEDED" });
  results.unsubscribe();
  await stop();
  expect(published.join()).not.toContain("forged");
});

describe("`cordum up` refuses to start", () => {
  test("without a key, and prints the command that creates one", async () => {
    const env = { CORDUM_CAP_SIGNATURES: "enforce" };
    const ran = await ups.start(servers(), env).ended;
    expect(ran.exitCode).not.toBe(0);
    expect(ran.err).toContain("openssl ecparam -name prime256v1 -genkey");
  });

  test("with an invalid key, and names the setting", async () => {
    writeFileSync(file("house.pem"), house.publicPem);
    const ran = await ups.start(["--config", file("cordum.yaml"), ...servers()]).ended;
    expect(ran).toMatchObject({ exitCode: 2 });
    expect(ran.err).toContain("cordum config explain cap.key");
  });
});
