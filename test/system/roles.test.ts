// Gateway, control and safety kernel as separate processes on NATS and Redis.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cordum, startUp, type UpProcess } from "../cli/run.ts";
import { callKernel } from "../contract/safety/safety.peer.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";

let nats: RunningServer;
let redis: RunningServer;
let dir: string;
const started: UpProcess[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "cordum-roles-"));
  [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
});

afterAll(async () => {
  for (const { child, ended } of started) {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await ended;
  }
  await Promise.all([nats.stop(), redis.stop()]);
  rmSync(dir, { recursive: true, force: true });
});

function up(...argv: string[]): UpProcess {
  const process = startUp(["--port", "0", "--nats", nats.url, "--redis", redis.url, ...argv]);
  started.push(process);
  return process;
}

const policy = (name: string, decision: string) => {
  const file = join(dir, `${name}.yaml`);
  writeFileSync(
    file,
    `version: ${name}\nrules:\n  - {id: r, match: {topics: ['demo.*']}, decision: ${decision}, reason: ${name}}\n`,
  );
  return file;
};

test("runs jobs across roles, applies a published policy in all of them, and survives a kernel restart", async () => {
  const kernel = up("--role", "safety", "--policy", policy("open", "allow"));
  const address = await kernel.url;
  const [gateway, control] = [
    up("--role", "gateway", "--safety", address),
    up("--role", "control", "--safety", address, "--demo"),
  ];
  const env = { CORDUM_URL: await gateway.url };
  const submit = async () =>
    JSON.parse((await cordum(["job", "submit", "demo.echo", "7", "--wait", "--json"], env)).out) as Record<
      string,
      unknown
    >;
  expect(await submit()).toMatchObject({ state: "SUCCEEDED", result: 7, safety: { reason: "open" } });

  const health = await fetch(`${await control.url}/readyz`);
  expect(await health.json()).toMatchObject({ ready: true });
  expect((await fetch(`${await control.url}/api/v1/jobs`)).status).toBe(404);

  expect(await cordum(["policy", "publish", policy("closed", "deny")], env)).toMatchObject({ exitCode: 0 });
  const ask = () => callKernel(address, "Check", "PolicyCheckRequest", { topic: "demo.echo" });
  while ((await ask()).reason !== "closed");
  // The submitter gets the denial although the kernel is remote.
  expect(await submit()).toMatchObject({ state: "DENIED", rule_id: "r", detail: expect.stringContaining("closed") });
  const snapshots = (await callKernel(address, "ListSnapshots", "ListSnapshotsRequest", {})).snapshots as string[];
  expect(snapshots).toHaveLength(2);
  expect(JSON.parse((await cordum(["status", "--json"], env)).out)).toMatchObject({
    mode: "cluster",
    policy: { version: "closed", snapshot: snapshots[0] },
  });

  // Without a kernel the gateway accepts jobs and they wait; a new kernel at the same address checks them.
  kernel.child.kill("SIGKILL");
  await kernel.ended;
  expect(await cordum(["policy", "rollback"], env)).toMatchObject({ exitCode: 0 });
  const id = (await cordum(["job", "submit", "demo.echo", "8"], env)).out.trim();
  const job = async () => JSON.parse((await cordum(["job", "get", id, "--json"], env)).out);
  while ((await job()).wait?.retry_class !== "safety_unavailable");
  const next = startUp([
    ...["--role", "safety", "--port", address.split(":")[1] ?? ""],
    ...["--nats", nats.url, "--redis", redis.url],
  ]);
  started.push(next);
  await next.url;
  for (;;) {
    const { state, safety, result } = await job();
    if (state === "SUCCEEDED") {
      // The kernel loads its policy from the store; the rollback happened while it was down.
      expect([safety.reason, result]).toEqual(["open", 8]);
      break;
    }
    expect(["PENDING", "SCHEDULED", "DISPATCHED"]).toContain(state);
  }
  for (const { child, ended } of [gateway, control, next]) {
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ exitCode: 0 });
  }
});
