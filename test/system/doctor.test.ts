// `cordum doctor` against real servers with different durability settings.

import { afterEach, expect, test } from "vitest";
import type { Finding } from "../../src/gateway/findings/finding.ts";
import { cordum, startUp, type UpProcess } from "../cli/run.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";

const stops: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function track(server: Promise<RunningServer>): Promise<RunningServer> {
  const running = await server;
  stops.push(() => running.stop());
  return running;
}

async function stop({ child, ended: end }: UpProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
  await end;
}

async function findings(redis: RunningServer, nats: RunningServer): Promise<readonly string[]> {
  const plane = startUp(["--port", "0", "--nats", nats.url, "--redis", redis.url]);
  stops.push(() => stop(plane));
  const ran = await cordum(["doctor", "--json"], { CORDUM_URL: await plane.url });
  const document = JSON.parse(ran.out) as { ok: boolean; findings: readonly Finding[] };
  expect(ran.exitCode).toBe(document.ok ? 0 : 1);
  return document.findings.map(({ level, code }) => `${level} ${code}`);
}

test("reports a Redis without persistence as a danger, and a durable one not at all (L46)", async () => {
  const nats = await track(startNats());
  const volatile = await findings(await track(startRedis()), nats);
  expect(volatile).toContain("danger redis_loses");
  const durable = await findings(await track(startRedis({ appendonly: true, appendfsync: "always" })), nats);
  expect(durable.filter((found) => found.includes("redis"))).toEqual([]);
  // The sync settings of NATS are not visible; its version is.
  expect(durable.filter((found) => found.includes("nats"))).toHaveLength(1);
});
