// `cordum doctor` against real servers: what they are told to do is what it finds.

import { afterEach, expect, test } from "vitest";
import type { Finding } from "../../src/cli/commands/diagnose.ts";
import { cordum, startUp, type UpProcess } from "../cli/run.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";

const stops: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function until(server: Promise<RunningServer>): Promise<RunningServer> {
  const running = await server;
  stops.push(() => running.stop());
  return running;
}

async function ended({ child, ended: end }: UpProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
  await end;
}

async function findings(redis: RunningServer, nats: RunningServer): Promise<readonly string[]> {
  const plane = startUp(["--port", "0", "--nats", nats.url, "--redis", redis.url]);
  stops.push(() => ended(plane));
  const ran = await cordum(["doctor", "--json"], { CORDUM_URL: await plane.url });
  const document = JSON.parse(ran.out) as { ok: boolean; findings: readonly Finding[] };
  expect(ran.exitCode).toBe(document.ok ? 0 : 1);
  return document.findings.map(({ level, code }) => `${level} ${code}`);
}

test("a careless Redis is a danger, a careful one is none (L46)", async () => {
  const nats = await until(startNats());
  const careless = await findings(await until(startRedis()), nats);
  expect(careless).toContain("danger redis_loses");
  const careful = await findings(await until(startRedis({ appendonly: true, appendfsync: "always" })), nats);
  expect(careful.filter((found) => found.includes("redis"))).toEqual([]);
  // How NATS writes cannot be asked for; that it is old can.
  expect(careful.filter((found) => found.includes("nats"))).toHaveLength(1);
});
