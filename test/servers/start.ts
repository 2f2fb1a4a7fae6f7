// Real NATS and Redis servers for tests: `const redis = await startRedis()`, and `await redis.stop()` at the end.
// What they promise is in server.ts; here is only what differs between the two.

import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findServer } from "../../scripts/servers.mjs";
import { talk } from "./protocol.ts";
import { type RunningServer, type StartOptions, startServer } from "./server.ts";

export interface NatsOptions extends StartOptions {
  /** On unless said otherwise. */
  readonly jetstream?: boolean;
  /** The text of a configuration file; address, port and store folder are set besides. */
  readonly config?: string;
}

export interface RedisOptions extends StartOptions {
  /** Off unless said otherwise: a restart then comes up empty. */
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
        const info = await talk(port, "", /^INFO (.*)\r\n/, signal);
        const { server_name: serverName, jetstream: hasJetstream = false } = JSON.parse(info) as Record<
          string,
          unknown
        >;
        if (serverName !== name || hasJetstream !== jetstream) return false;
        // A server that wants credentials refuses this CONNECT; that, too, is a server that answers.
        await talk(port, 'CONNECT {"verbose":false}\r\nPING\r\n', /(PONG|-ERR 'Authorization Violation')\r\n/, signal);
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
        // While it loads its files it answers "-LOADING", which is not yet ready.
        const answer = await talk(port, "PING\r\n", /^([+-].*)\r\n/, signal);
        const owner = answer === "+PONG" ? await talk(port, "INFO server\r\n", /process_id:(\d+)\r\n/, signal) : "";
        return owner === String(pid);
      },
    },
    options,
  );
}
