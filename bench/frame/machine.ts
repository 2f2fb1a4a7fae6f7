// The machine and the versions of a benchmark run.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { findServer } from "../../scripts/servers.mjs";
import { findPostgres } from "./postgres.ts";

export interface Machine {
  readonly date: string;
  readonly commit: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memory_gb: number;
  readonly os: string;
  /** Load average before the start. A loaded machine gives unreliable figures. */
  readonly load_before: number;
  readonly versions: Readonly<Record<string, string>>;
}

export function describeMachine(): Machine {
  const [first] = cpus();
  return {
    date: new Date().toISOString(),
    commit: commit(),
    cpu: first?.model.trim() ?? "unknown",
    cores: cpus().length,
    memory_gb: Math.round(totalmem() / 1e9),
    os: `Linux ${release()}`,
    load_before: loadavg()[0] ?? 0,
    versions: {
      node: process.versions.node,
      redis: serverVersion("redis", /v=([\d.]+)/),
      nats: serverVersion("nats", /v([\d.]+)/),
      postgres: versionOf(findPostgres()?.postgres ?? null, /([\d.]+)/),
      ...Object.fromEntries(PACKAGES.map((name) => [name, packageVersion(name)])),
    },
  };
}

function commit(): string {
  const hash = command("git", ["rev-parse", "--short=10", "HEAD"]);
  return command("git", ["status", "--porcelain"]) === "" ? hash : `${hash}-dirty`;
}

function serverVersion(name: "redis" | "nats", pattern: RegExp): string {
  return versionOf(findServer(name), pattern);
}

function versionOf(binary: string | null, pattern: RegExp): string {
  return binary === null ? "missing" : (pattern.exec(command(binary, ["--version"]))?.[1] ?? "unknown");
}

function packageVersion(name: string): string {
  const file = `${ROOT}node_modules/${name}/package.json`;
  if (!existsSync(file)) return "missing";
  return String((JSON.parse(readFileSync(file, "utf8")) as { version?: unknown }).version);
}

function command(file: string, args: readonly string[]): string {
  try {
    return execFileSync(file, args, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return "unknown";
  }
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PACKAGES = [
  "bullmq",
  "ioredis",
  "redlock",
  "redis-semaphore",
  "@nats-io/transport-node",
  "@cedar-policy/cedar-wasm",
  "@dbos-inc/dbos-sdk",
];
