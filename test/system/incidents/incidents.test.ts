// Causes each incident on the shipped program, and checks that one command names it and its fix.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { http, permanent, worker } from "../../../src/worlds/worker-sdk.ts";
import { cordum, type Ran, type UpProcess } from "../../cli/run.ts";
import { startNats, startRedis } from "../../servers/start.ts";
import { Api } from "../api.ts";
import { openWorld } from "../backends.ts";
import { Program } from "../program.ts";

let program: Program;
let dir: string;
const stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  program = await Program.build();
  dir = mkdtempSync(join(tmpdir(), "cordum-incidents-"));
});

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

afterAll(async () => {
  await program.stop();
  rmSync(dir, { recursive: true, force: true });
});

interface Plane {
  readonly api: Api;
  /** Runs a command against this control plane. */
  run(...argv: string[]): Promise<Ran>;
  readonly up: UpProcess;
}

async function start(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Plane> {
  const up = program.up(["--port", "0", ...argv], { CORDUM_LOG_LEVEL: "error", ...env });
  const url = await up.url;
  stops.push(() => kill(up));
  return { api: new Api(url), up, run: (...command) => cordum(command, { CORDUM_URL: url, COLUMNS: "200", ...env }) };
}

const embedded = (argv: readonly string[] = [], env?: Readonly<Record<string, string>>) =>
  start(["--data", mkdtempSync(join(dir, "data-")), ...argv], env);

async function kill({ child, ended }: UpProcess): Promise<void> {
  child.kill("SIGKILL");
  await ended;
}

/** Polls a command until its output has the text: a figure may follow its cause by a moment. */
async function until(command: () => Promise<Ran>, text: RegExp): Promise<string> {
  const untilMs = Date.now() + 60_000;
  for (;;) {
    const { out, err } = await command();
    if (text.test(out)) return out;
    if (Date.now() > untilMs) throw new Error(`the output has no ${String(text)}: ${out}${err}`);
  }
}

const ALLOW = "{id: all, match: {}, decision: allow, reason: all}";

/** A policy file with one rule. */
function policy(rule: string): string {
  const file = join(mkdtempSync(join(dir, "policy-")), "policy.yaml");
  writeFileSync(file, `version: test\nrules:\n  - ${rule}\n`);
  return file;
}

test("`doctor` names a kernel that is down at once, with the fix", async () => {
  const file = policy(ALLOW);
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  stops.push(() => Promise.all([nats.stop(), redis.stop()]));
  const servers = ["--nats", nats.url, "--redis", redis.url];
  const kernel = program.up(["--role", "safety", "--port", "0", ...servers, "--policy", file]);
  stops.push(() => kill(kernel));
  const { run } = await start([...servers, "--safety", await kernel.url]);
  expect((await run("doctor")).out).not.toContain("safety kernel");
  await kill(kernel);
  const { out, exitCode } = await run("doctor");
  expect(out).toMatch(/danger: the safety kernel is unavailable .*jobs wait\n {2}fix: start the kernel/);
  expect(exitCode).toBe(1);
});

test("`doctor` names a hot lock, its holder and the fix", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  stops.push(() => Promise.all([nats.stop(), redis.stop()]));
  const { run } = await start(["--nats", nats.url, "--redis", redis.url]);
  const { world, close } = await openWorld({ nats: nats.url, redis: redis.url }, "stalled-control");
  stops.push(close);
  const key = "cordum:wf:run:lock:order-17";
  const request = { key, org: "default", ttlMs: 30_000, waitMs: 30_000, owner: "stalled-control: results" };
  const held = await world.locks.acquire(request);
  if (held.kind !== "held") throw new Error("the lock is busy");
  const waiting = Array.from({ length: 12 }, () => world.locks.acquire(request));
  const out = await until(() => run("doctor"), /: 12 waiters/);
  expect(out).toMatch(/order-17 is contended: 12 waiters.*, held by stalled-control: results until .*Z\n {2}fix: /);
  await held.lease.release();
  for (const next of waiting) {
    const acquired = await next;
    if (acquired.kind === "held") await acquired.lease.release();
  }
});

test("`dlq groups` reduces 5,000 dead letters to three causes, each with what to do", async () => {
  const { api, run } = await embedded(["--policy", policy(ALLOW)]);
  const errors = [
    (n: number) => permanent(new Error(`customer ${n} not found`)),
    (n: number) => permanent(new TypeError(`cannot read amount of invoice inv-${n}`)),
    () => permanent(new Error("certificate has expired")),
  ];
  const stop = await worker({
    ...{ id: "w", topics: ["pay"], concurrency: 64, transport: http({ url: api.url, ...api.apiKey }) },
    handle: async ({ input }) => {
      throw errors[(input as number) % 3]?.(input as number);
    },
  });
  stops.push(stop);
  const total = 5_000;
  let next = 0;
  const submitter = async () => {
    while (next < total) await api.submit("pay", next++);
  };
  await Promise.all(Array.from({ length: 32 }, submitter));
  await api.until("/status", ({ body }) => body.dead_letters === total);
  expect((await run("doctor")).out).toMatch(/unresolved dead letters: 5000.*\n.*\n {2}next: cordum dlq groups/);
  const { items } = JSON.parse((await run("dlq", "groups", "--json")).out);
  expect(items.map(({ count }: { count: number }) => count)).toEqual([1_667, 1_667, 1_666]);
  const { out } = await run("dlq", "groups");
  for (const text of ["customer", "invoice", "certificate has expired"]) expect(out).toContain(text);
});

test("`doctor` names the tenant that floods", async () => {
  const { api, run } = await embedded(["--policy", policy(ALLOW)]);
  const loud = api.with({ "x-tenant-id": "loud" });
  await Promise.all(Array.from({ length: 600 }, () => loud.submit("unserved")));
  await api.with({ "x-tenant-id": "calm" }).submit("work");
  const out = await until(() => run("doctor"), /tenant loud has 600 open jobs, 99 % of all/);
  expect(out).toMatch(/fix: .*orgs\.loud\.limits\.backlog_max/);
});

test("`job explain` names the worker that a job hangs on, with the age of its progress", async () => {
  const { api, run } = await embedded(["--policy", policy(ALLOW)]);
  let onTaken = () => {};
  const taken = new Promise<void>((resolve) => {
    onTaken = resolve;
  });
  let onEnd = () => {};
  const end = new Promise<void>((resolve) => {
    onEnd = resolve;
  });
  const stop = await worker({
    ...{ id: "hung-worker", topics: ["work"], transport: http({ url: api.url, ...api.apiKey }) },
    handle: () => {
      onTaken();
      return end;
    },
  });
  const id = await api.submit("work");
  await taken;
  const { out } = await run("job", "explain", id);
  expect(out).toMatch(/hung-worker/);
  expect(out).toMatch(/progress/);
  expect(out).toMatch(/cordum job cancel/);
  onEnd();
  await stop();
});

test("`run explain` names what a stuck run waits for, and the command that unblocks it", async () => {
  const { run } = await embedded(["--demo", "--workflows", "examples/workflows"]);
  const started = await run("run", "start", "approval-first", '{"what":"refund"}', "--json");
  const { run_id } = JSON.parse(started.out);
  const { out } = await run("run", "explain", run_id);
  expect(out).toMatch(/cordum approval approve/);
});

test("`doctor` warns before the disk is full", async () => {
  const { run } = await embedded([], { CORDUM_DIAGNOSIS_DISK_FREE_MIN: "100" });
  const { out, exitCode } = await run("doctor");
  expect(out).toMatch(/danger: the disk of .* is nearly full: .* free.*\n {2}fix: free space or enlarge the disk/);
  expect(exitCode).toBe(1);
});

test("`doctor` names the Redis server that is down, and works without the control plane", async () => {
  const [nats, redis] = await Promise.all([startNats(), startRedis()]);
  stops.push(() => nats.stop());
  const { run, up } = await start(["--nats", nats.url, "--redis", redis.url], {
    ...{ CORDUM_NATS_URL: nats.url, CORDUM_REDIS_URL: redis.url },
  });
  await redis.stop();
  const down = new RegExp(
    `danger: the redis server at 127.0.0.1:${new URL(redis.url).port} does not accept connections`,
  );
  const out = await until(() => run("doctor"), down);
  expect(out).toMatch(/fix: start the server, or correct `redis.url`/);
  await kill(up);
  expect((await run("doctor")).out).toMatch(down);
});

test("`job get` says who approved a job, when, and why", async () => {
  const rule = "{id: ask, match: {topics: [pay]}, decision: require_approval, reason: money}";
  const { api } = await embedded(["--policy", policy(rule)]);
  const key = async (body: object) => (await api.post("/keys", body)).body.key as string;
  const root = api.as(await key({ tenant: "*", role: "admin", name: "root" }));
  const keyOf = async (name: string, role: string) =>
    (await root.post("/keys", { tenant: "default", role, name, person: name })).body.key as string;
  const [submitter, approver] = await Promise.all([keyOf("agent", "submitter"), keyOf("ann", "operator")]);
  const id = await root.as(submitter).submit("pay", { amount: 5 });
  const env = { CORDUM_URL: api.url, CORDUM_API_KEY: approver };
  expect(await cordum(["approval", "approve", id, "--note", "called the customer"], env)).toMatchObject({
    exitCode: 0,
  });
  const { out } = await cordum(["job", "get", id], env);
  expect(out).toMatch(/ann/);
  expect(out).toContain("called the customer");
});
