// Real NATS and Redis servers for tests: `const redis = await startRedis()`, and `await redis.stop()` at the end.
// See server.ts for the guarantees.

import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findServer } from "../../scripts/servers.mjs";
import { exchange } from "./protocol.ts";
import { type RunningServer, type StartOptions, startServer } from "./server.ts";

export interface NatsOptions extends StartOptions {
  /** On by default. */
  readonly jetstream?: boolean;
  /** Text of a configuration file. Address, port and store directory are set in addition. */
  readonly config?: string;
}

export interface RedisOptions extends StartOptions {
  /** Off by default: the server is empty after a restart. */
  readonly appendonly?: boolean;
  readonly appendfsync?: "always" | "everysec" | "no";
}

export function startNats(options: NatsOptions = {}): Promise<RunningServer> {
  const jetstream = options.jetstream ?? true;
  const name = `test-${randomUUID()}`;
  return startServer(
    {
      name: "nats",
      find: () => findServer("nats"),
      scheme: "nats",
      args: async (port, dir) => {
        const args = ["-a", "127.0.0.1", "-p", String(port), "-n", name];
        if (jetstream) args.push("-js", "-sd", dir);
        if (options.config !== undefined) {
          const file = join(dir, "nats.conf");
          await writeFile(file, options.config);
          args.push("-c", file);
        }
        return args;
      },
      isReady: async ({ port, signal }) => {
        const info = await exchange(port, "", /^INFO (.*)\r\n/, signal);
        const { server_name: serverName, jetstream: hasJetstream = false } = JSON.parse(info) as Record<
          string,
          unknown
        >;
        if (serverName !== name || hasJetstream !== jetstream) return false;
        // A server that requires credentials responds with an error, which also means that it is ready.
        await exchange(
          port,
          'CONNECT {"verbose":false}\r\nPING\r\n',
          /(PONG|-ERR 'Authorization Violation')\r\n/,
          signal,
        );
        return true;
      },
    },
    options,
  );
}

export function startRedis(options: RedisOptions = {}): Promise<RunningServer> {
  const persistence = ["--appendonly", options.appendonly === true ? "yes" : "no"];
  if (options.appendfsync !== undefined) persistence.push("--appendfsync", options.appendfsync);
  return startServer(
    {
      name: "redis",
      find: () => findServer("redis"),
      scheme: "redis",
      args: (port, dir) =>
        Promise.resolve(["--bind", "127.0.0.1", "--port", String(port), "--dir", dir, "--save", "", ...persistence]),
      isReady: async ({ port, pid, signal }) => {
        // The response is "-LOADING" while Redis loads its files.
        const response = await exchange(port, "PING\r\n", /^([+-].*)\r\n/, signal);
        const owner =
          response === "+PONG" ? await exchange(port, "INFO server\r\n", /process_id:(\d+)\r\n/, signal) : "";
        return owner === String(pid);
      },
    },
    options,
  );
}
