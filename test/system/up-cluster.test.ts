import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { cordum, startUp, type UpProcess } from "../cli/run.ts";
import type { RunningServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";

let nats: RunningServer;
let redis: RunningServer;
let started: UpProcess[] = [];

beforeAll(async () => {
  [nats, redis] = await Promise.all([startNats(), startRedis({ appendonly: true, appendfsync: "everysec" })]);
});

afterEach(async () => {
  for (const { child, ended } of started) {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await ended;
  }
  started = [];
});

afterAll(() => Promise.all([nats.stop(), redis.stop()]));

function up(argv: readonly string[]): UpProcess {
  const process = startUp(["--port", "0", ...argv]);
  started.push(process);
  return process;
}

describe("cordum up --nats --redis", () => {
  test("two processes share one control plane: the worker of one runs the jobs of the other", async () => {
    const servers = ["--nats", nats.url, "--redis", redis.url];
    const [first, second] = [up(servers), up([...servers, "--demo"])];
    const [one, other] = [{ CORDUM_URL: await first.url }, { CORDUM_URL: await second.url }];

    const echo = await cordum(["job", "submit", "demo.echo", '{"n":1}', "--wait", "--json"], one);
    expect(JSON.parse(echo.out)).toMatchObject({ state: "SUCCEEDED", result: { n: 1 } });
    const { job_id } = JSON.parse(echo.out);
    expect(await cordum(["job", "get", job_id], other)).toMatchObject({ exitCode: 0 });

    const flaky = await cordum(["job", "submit", "demo.flaky", "--wait", "--json"], one);
    expect(JSON.parse(flaky.out)).toMatchObject({ state: "SUCCEEDED", attempt: 3 });

    const status = JSON.parse((await cordum(["status", "--json"], one)).out);
    expect(status).toMatchObject({ mode: "cluster", durability: { profile: "cluster, redis everysec" } });

    for (const { child, ended } of [first, second]) {
      child.kill("SIGTERM");
      expect(await ended).toMatchObject({ exitCode: 0 });
    }
  });

  test("exits with 6 and names the flag when a server is unreachable", async () => {
    const gone = await startRedis();
    await gone.stop();
    const ran = await up(["--nats", nats.url, "--redis", gone.url]).ended;
    expect(ran).toMatchObject({ exitCode: 6 });
    expect(ran.err).toContain("set another address with --redis");
  });
});
