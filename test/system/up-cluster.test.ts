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

function up(argv: readonly string[], env: Readonly<Record<string, string>> = {}): UpProcess {
  const process = startUp(["--port", "0", ...argv], env);
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
    const ran = await up(["--nats", nats.url, "--redis", gone.url], { CORDUM_CLUSTER_WAIT_MS: "0" }).ended;
    expect(ran).toMatchObject({ exitCode: 6 });
    expect(ran.err).toContain("set another address with --redis");
    expect(ran.err).not.toContain("server_unreachable");
  });

  test.each(["gateway", "control", "all"])(
    "role %s waits for redis and nats, naming address and time left",
    async (role) => {
      const [lateNats, lateRedis] = await Promise.all([startNats(), startRedis()]);
      await Promise.all([lateNats.kill(), lateRedis.kill()]);
      const process = up(["--nats", lateNats.url, "--redis", lateRedis.url, "--role", role]);
      await process.printed(`redis at \`redis://127.0.0.1:${lateRedis.port}\``);
      await process.printed("trying again for 5");
      await lateRedis.restart();
      await process.printed(`nats at \`127.0.0.1:${lateNats.port}\``);
      await lateNats.restart();
      expect(await (await fetch(`${await process.url}/readyz`)).json()).toMatchObject({ ready: true });
      process.child.kill("SIGTERM");
      expect(await process.ended).toMatchObject({ exitCode: 0 });
      await Promise.all([lateNats.stop(), lateRedis.stop()]);
    },
  );

  test("exits with 6 when the server is still unreachable at the end of `cluster.wait_ms`", async () => {
    const gone = await startRedis();
    await gone.stop();
    const ran = await up(["--nats", nats.url, "--redis", gone.url], { CORDUM_CLUSTER_WAIT_MS: "600" }).ended;
    expect(ran).toMatchObject({ exitCode: 6 });
    expect(ran.err).toMatch(/server_unreachable[\s\S]*set another address with --redis/);
  });

  test("stops waiting on SIGTERM", async () => {
    const gone = await startRedis();
    await gone.stop();
    const process = up(["--nats", nats.url, "--redis", gone.url]);
    await process.printed("server_unreachable");
    process.child.kill("SIGTERM");
    expect(await process.ended).toMatchObject({ exitCode: 0 });
  });

  test("a control process without --port listens on a free port if the default one is in use", async () => {
    const argv = ["--nats", nats.url, "--redis", redis.url, "--role", "control"];
    const start = (...more: string[]) => {
      const process = startUp([...argv, ...more]);
      started.push(process);
      return process;
    };
    // Whether the first one has the default port depends on the host; the second one never does.
    const first = await start().url;
    const second = start();
    const url = await second.url;
    expect(url).not.toBe(first);
    await second.printed("port_moved");
    expect(await (await fetch(`${url}/readyz`)).json()).toMatchObject({ ready: true });

    const ran = await start("--port", new URL(first).port).ended;
    expect(ran).toMatchObject({ exitCode: 4 });
    expect(ran.err).toContain("cordum up --role control --port 0");
  });
});
