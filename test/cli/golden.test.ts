// Transcripts of every command: stdout, stderr and exit code. Update with `npx vitest run test/cli/golden.test.ts -u` and
// review the diff.

import { afterEach, beforeEach, expect, test } from "vitest";
import { startDemoWorker } from "../../src/cli/up/demo.ts";
import { JOBS, type Job } from "../../src/core/model/job.ts";
import type { Stop } from "../../src/ports/bus.ts";
import { put } from "../../src/ports/store.ts";
import { openTestGateway, type TestGateway } from "../gateway/test-gateway.ts";
import { Transcript } from "./transcript.ts";

let gateway: TestGateway;
let stopWorker: Stop;
let env: { CORDUM_URL: string };

beforeEach(async () => {
  gateway = await openTestGateway();
  stopWorker = await startDemoWorker(gateway.world);
  const { registry } = gateway.engine;
  while (registry.list(gateway.world.clock.now()).length === 0) await new Promise(setImmediate);
  env = { CORDUM_URL: await gateway.server.listen("127.0.0.1", 0) };
});

afterEach(async () => {
  await stopWorker();
  await gateway.close();
});

const golden = (name: string) => `golden/${name}.txt`;

test("jobs and approvals", async () => {
  const { run, both, transcript } = begin();
  await run(["job", "submit", "demo.echo", '{"hello":"world"}', "--wait"]);
  const job = JSON.parse((await run(["job", "submit", "demo.echo", "-", "--wait", "--json"], { stdin: "[1]" })).out);
  const flags = ["--actor", "me", "--actor-type", "human", "--pack", "p1", "--label", "a=b", "--mcp", "tool=ls"];
  const asked = await run(["job", "submit", "demo.approve", "1", ...flags, "--risk-tag", "x", "--key", "k"]);
  await run(["job", "submit", "demo.approve", "2", "--json"]);
  await run(["job", "submit", "demo.approve", "2", "--key", "k"]);
  await run(["job", "submit", "demo.forbidden", "--json"]);
  await run(["job", "submit", "demo.broken", '{"keep":"me"}', "--wait"]);
  await run(["job", "submit", "demo.approve", "--wait", "--timeout", "1ms"]);
  await both(["job", "get", job.job_id]);
  await both(["job", "get", "unknown"]);
  await both(["job", "list", "--state", "SUCCEEDED"]);
  await run(["job", "list", "--limit", "1"]);
  await both(["job", "list", "--state", "GONE"]);
  const id = asked.out.trim();
  await both(["job", "explain", id]);
  await both(["job", "explain", job.job_id]);
  await run(["approval", "list"]);
  const waiting = JSON.parse((await run(["approval", "list", "--json"])).out).items;
  await run(["approval", "reveal", waiting[0].job_id, "--reason", "check the input"]);
  await run(["approval", "reveal", waiting[0].job_id, "--reason", "check the input", "--json"]);
  await run(["approval", "approve", id, "--job-hash", "other", "--json"]);
  await run(["approval", "approve", waiting[0].job_id, "--note", "fine", "--job-hash", waiting[0].job_hash]);
  await run(["approval", "approve", "unknown"]);
  await run(["approval", "reject", id]);
  await run(["approval", "reject", id, "--reason", "not today"]);
  await run(["approval", "reject", id, "--reason", "not today", "--json"]);
  await run(["job", "cancel", waiting[1].job_id, "--reason", "a mistake", "--json"]);
  await run(["job", "cancel", waiting[1].job_id]);
  await expect(transcript.text).toMatchFileSnapshot(golden("jobs"));
});

test("dead letters", async () => {
  const { run, both, transcript } = begin();
  for (const input of ["1", "2"]) await run(["job", "submit", "demo.broken", input, "--wait", "--json"]);
  const deadLetters = JSON.parse((await run(["dlq", "list", "--json"])).out).items;
  await run(["dlq", "list"]);
  await both(["dlq", "groups"]);
  await both(["dlq", "drop", "--error", "PermanentError", "--dry-run"]);
  await both(["dlq", "show", deadLetters[0].id]);
  await both(["dlq", "show", "unknown"]);
  await run(["dlq", "retry"]);
  await run(["dlq", "retry", deadLetters[0].id, "--all"]);
  await run(["dlq", "retry", "--all", "--rate", "fast"]);
  await run(["dlq", "drop", deadLetters[0].id, "--json"]);
  await run(["dlq", "drop", deadLetters[0].id]);
  await run(["dlq", "retry", deadLetters[0].id, "--json"]);
  await run(["job", "retry", "--topic", "demo.broken", "--dry-run"]);
  await both(["job", "retry", deadLetters[0].id]);
  await both(["job", "cancel", "--topic", "demo.broken", "--since", "1h"]);
  await run(["job", "retry"]);
  await run(["dlq", "drop", "--topic", "demo.broken"]);
  await run(["dlq", "groups"]);
  await expect(transcript.text).toMatchFileSnapshot(golden("dlq"));
});

test("workers, pools and locks", async () => {
  const { both, run, transcript } = begin();
  await both(["worker", "list"]);
  await both(["worker", "explain", "demo-worker"]);
  await run(["worker", "explain", "unknown"]);
  await both(["pool", "list"]);
  await both(["pool", "drain", "unknown"]);
  await both(["pool", "resume", "unknown"]);
  await both(["lock", "list"]);
  const held = await gateway.world.locks.acquire({
    key: "run:1",
    org: "default",
    ttlMs: 60_000,
    waitMs: 0,
    owner: "me",
  });
  await both(["lock", "list", "--limit", "5"]);
  if (held.kind === "held") await held.lease.release();
  await run(["lock", "list", "--limit", "1000"]);
  await expect(transcript.text).toMatchFileSnapshot(golden("workers"));
});

test("fail-open leases and reviews", async () => {
  const { both, run, transcript } = begin();
  await both(["failopen", "list"]);
  await run(["failopen", "open"]);
  await run(["failopen", "open", "--reason", "the kernel burns", "--minutes", "300"]);
  await run(["failopen", "open", "--reason", "the kernel burns", "--scope", "*", "--minutes", "10", "--json"]);
  const id = (await run(["failopen", "open", "--reason", "the kernel burns"])).out.trim();
  await run(["failopen", "list"]);
  const leases = JSON.parse((await run(["failopen", "list", "--json"])).out).items;
  for (const lease of leases) await run(["failopen", "close", lease.id, ...(lease.id === id ? [] : ["--json"])]);
  await run(["failopen", "close", "unknown"]);
  const job = JSON.parse((await run(["job", "submit", "demo.echo", "--wait", "--json"])).out);
  await plantBypass(job.job_id);
  await both(["failopen", "bypassed"]);
  await run(["failopen", "review", job.job_id, "--note", "harmless"]);
  await run(["failopen", "review", job.job_id, "--json"]);
  await both(["failopen", "bypassed", "--reviewed"]);
  await run(["failopen", "review", "unknown"]);
  await expect(transcript.text).toMatchFileSnapshot(golden("failopen"));
});

test("status, doctor and audit", async () => {
  const { both, run, transcript } = begin();
  const acme = { env: { CORDUM_TENANT: "acme" } };
  await both(["doctor"]);
  await run(["job", "submit", "demo.broken", "--wait"]);
  await run(["job", "submit", "demo.approve"]);
  await run(["failopen", "open", "--reason", "a test", "--json"], acme);
  await both(["doctor"]);
  await both(["status"]);
  await both(["status"], acme);
  await run(["status"], { env: { CORDUM_TENANT: "no tenant" } });
  await run(["failopen", "open", "--reason", "a test", "--scope", "*"]);
  await both(["audit", "list", "--limit", "3"], acme);
  await both(["audit", "verify"], acme);
  await both(["audit", "checkpoint"], acme);
  await both(["audit", "list", "--system", "--limit", "1"]);
  await both(["audit", "verify", "--system"]);
  await expect(transcript.text).toMatchFileSnapshot(golden("status"));
});

test("keys, and commands with and without them", async () => {
  const { both, run, transcript } = begin();
  await run(["key", "create", "--role", "viewer"]);
  await run(["key", "create"]);
  await run(["key", "create", "--role", "king"]);
  const made = await run(["key", "create", "--tenant", "*", "--role", "admin", "--name", "root", "--json"]);
  const root = { CORDUM_API_KEY: JSON.parse(made.out).key };
  await both(["status"]);
  await run(["job", "list"], { env: { CORDUM_API_KEY: "nonsense" } });
  const viewer = (await run(["key", "create", "--role", "viewer", "--expires-in", "720h"], { env: root })).out.trim();
  await both(["job", "cancel", "any"], { env: { CORDUM_API_KEY: viewer } });
  await run(["job", "list"], { env: { CORDUM_API_KEY: viewer, CORDUM_TENANT: "acme" } });
  await run(["lock", "list"], { env: { CORDUM_API_KEY: viewer } });
  await both(["key", "list"], { env: root });
  const { id } = JSON.parse((await run(["key", "list", "--json", "--limit", "1"], { env: root })).out).items[0];
  await both(["key", "explain", id], { env: root });
  await run(["key", "revoke", id, "--json"], { env: root });
  await run(["key", "revoke", id], { env: root });
  await run(["job", "list"], { env: { CORDUM_API_KEY: viewer } });
  await run(["key", "revoke", JSON.parse(made.out).id], { env: root });
  await run(["key", "revoke", "unknown"], { env: root });
  await run(["key", "explain", "unknown"], { env: root });
  await both(["demo", "status"], { env: root });
  for (const name of ["stop-kernel", "start-kernel", "hot-lock"]) await both(["demo", name], { env: root });
  await expect(transcript.text).toMatchFileSnapshot(golden("keys"));
});

function begin() {
  const transcript = new Transcript(env);
  return {
    transcript,
    run: transcript.run.bind(transcript),
    both: transcript.both.bind(transcript),
  };
}

async function plantBypass(jobId: string): Promise<void> {
  const { store, clock } = gateway.world;
  const found = await store.load(JOBS, jobId);
  const bypass = { leaseId: "lease", reason: "fail-open: safety unavailable", atMs: clock.now() };
  const after: Job | null = found && { ...found.value, bypass };
  const change = { org: "default", atMs: clock.now(), guards: [], sends: [], watch: [] };
  await store.commit({ ...change, puts: [put(JOBS, jobId, found, after)] });
}
