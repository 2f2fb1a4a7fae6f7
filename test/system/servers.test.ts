// The test servers of `test/servers`, for NATS and Redis.

import { spawn } from "node:child_process";
import { getEventListeners, once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect as connectNats } from "@nats-io/transport-node";
import { afterEach, describe, expect, it } from "vitest";
import { findServer } from "../../scripts/servers.mjs";
import { freePort } from "../servers/ports.ts";
import { exchange } from "../servers/protocol.ts";
import { type RunningServer, startServer } from "../servers/server.ts";
import { startNats, startRedis } from "../servers/start.ts";

const started: RunningServer[] = [];

async function track(starting: Promise<RunningServer>): Promise<RunningServer> {
  const server = await starting;
  started.push(server);
  return server;
}

afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()));
});

describe.each([
  ["nats", startNats],
  ["redis", startRedis],
])("a %s server", (_name, start) => {
  it("is ready after the start, beside another instance", async () => {
    const [one, two] = await Promise.all([track(start()), track(start())]);
    expect(one.port).not.toBe(two.port);
    expect(one.url).toMatch(new RegExp(`^${_name}://127\\.0\\.0\\.1:${one.port}$`));
    await Promise.all([greet(one), greet(two)]);
  });

  it("leaves no process and no folder when stopped while paused", async () => {
    const server = await start();
    await server.pause();
    await server.stop();
    expect(existsSync(server.dir)).toBe(false);
    expect(isAlive(server.pid)).toBe(false);
    await expect(greet(server)).rejects.toThrow("ECONNREFUSED");
  });

  it("keeps a folder that it was given", async () => {
    const dir = await mkdtemp(join(tmpdir(), "cordum-servers-"));
    const server = await start({ dir });
    await server.stop();
    expect(existsSync(dir)).toBe(true);
    await rm(dir, { recursive: true });
  });

  it("restarts after a kill on the same port as a new process", async () => {
    const server = await track(start());
    const pidBefore = server.pid;
    await server.kill();
    await expect(greet(server)).rejects.toThrow("ECONNREFUSED");
    await server.restart();
    expect(server.pid).not.toBe(pidBefore);
    await greet(server);
  });

  it("rejects a port that is taken", async () => {
    const { port } = await track(start());
    await expect(start({ port })).rejects.toThrow(`port ${port} is taken`);
  });

  it("does not answer while paused and answers after the resume", async () => {
    const [paused, running] = await Promise.all([track(start()), track(start())]);
    await paused.pause();
    let answered = false;
    const answer = greet(paused).then(() => {
      answered = true;
    });
    // The OS accepts the connection, but only the process can answer.
    for (let i = 0; i < 50; i += 1) await greet(running);
    expect(answered).toBe(false);
    paused.resume();
    await answer;
  });
});

describe("data", () => {
  it("of JetStream survives a restart", async () => {
    const server = await track(startNats());
    const before = await connectNats({ servers: server.url, reconnect: false });
    await (await jetstreamManager(before)).streams.add({ name: "KEPT", subjects: ["kept"] });
    await jetstream(before).publish("kept", "one");
    await Promise.all([before.closed(), server.restart()]);
    const after = await connectNats({ servers: server.url });
    const { state } = await (await jetstreamManager(after)).streams.info("KEPT");
    expect(state.messages).toBe(1);
    await after.close();
  });

  it.each([
    [true, "$1"],
    [false, "$-1"],
  ])("of Redis with appendonly %s reads as %s after a restart", async (appendonly, expected) => {
    const server = await track(startRedis({ appendonly, appendfsync: "always" }));
    await exchange(server.port, "SET key 7\r\n", /(\+OK)\r\n/);
    await server.restart();
    expect(await exchange(server.port, "GET key\r\n", /^(\$-?\d+)\r\n/)).toBe(expected);
  });

  it("uses the configuration given to NATS", async () => {
    const server = await track(startNats({ jetstream: false, config: "max_payload: 4321\n" }));
    const info = JSON.parse(await greet(server)) as Record<string, unknown>;
    expect(info.max_payload).toBe(4321);
    expect(info.jetstream ?? false).toBe(false);
  });
});

describe("a start", () => {
  it("takes another port when the first one is taken", async () => {
    const first = await track(startRedis());
    const ports = [first.port, await freePort()];
    // The check of the process id detects that another server answers on the first port.
    const server = await track(startServer(redisKind(), {}, async () => ports.shift() ?? 0));
    expect(server.port).not.toBe(first.port);
    expect(ports).toEqual([]);
  });

  it("rejects a port whose owner never answers", async () => {
    const mute = createServer();
    mute.listen(0, "127.0.0.1");
    await once(mute, "listening");
    const { port } = mute.address() as { port: number };
    await expect(startRedis({ port })).rejects.toThrow(`port ${port} is taken`);
    mute.close();
  });

  it("reports the server's output when it does not start", async () => {
    await expect(startNats({ config: "no_such_setting: {" })).rejects.toThrow(
      /exited before it was ready; output:.*Parse error/s,
    );
  });
});

it("leaves no listener on the signal of a request, also without a server", async () => {
  const { signal } = new AbortController();
  const port = await freePort();
  await expect(exchange(port, "", /./, signal)).rejects.toThrow("ECONNREFUSED");
  await expect.poll(() => getEventListeners(signal, "abort")).toEqual([]);
});

describe("the end of the test process", () => {
  it("stops its servers and removes their folders, even after kill -9", async () => {
    const script =
      'import { startRedis } from "./test/servers/start.ts"; const { port, dir } = await startRedis();' +
      "console.log(JSON.stringify({ port, dir })); setInterval(() => {}, 1e6);";
    const parent = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = (await once(parent.stdout, "data")) as [Buffer];
    const { port, dir } = JSON.parse(String(line)) as { port: number; dir: string };
    const socket: Socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.resume();
    const closed = once(socket, "close");
    parent.kill("SIGKILL");
    await closed;
    await expect.poll(() => existsSync(dir)).toBe(false);
  });
});

/** Connects and returns the server's first line. */
function greet(server: RunningServer): Promise<string> {
  return server.url.startsWith("nats:")
    ? exchange(server.port, "", /^INFO (.*)\r\n/)
    : exchange(server.port, "PING\r\n", /^(\+PONG)\r\n/);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Redis on a port that the test chooses. */
function redisKind(): Parameters<typeof startServer>[0] {
  return {
    name: "redis",
    find: () => findServer("redis"),
    scheme: "redis",
    args: async (port, dir) => ["--bind", "127.0.0.1", "--port", String(port), "--dir", dir, "--save", ""],
    isReady: async ({ port, pid, signal }) =>
      (await exchange(port, "INFO server\r\n", /process_id:(\d+)\r\n/, signal)) === String(pid),
  };
}
