/** Findings about a control plane that does not answer: from its readiness, and from what this machine knows of it. */
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { connect } from "node:net";
import { diskUsage } from "../../adapters/node/disk.ts";
import type { Config } from "../../config/config.ts";
import { caution, danger, diskLow, type Finding } from "../../gateway/findings/finding.ts";
import { isLoopbackUrl } from "../../gateway/findings/findings.ts";
import { CliError } from "../exit.ts";
import type { Io } from "../io.ts";
import { loadConfig } from "../up/load-config.ts";

/** `error`: why the status could not be read. */
export async function diagnoseOutage(io: Io, url: string, error: CliError): Promise<readonly Finding[]> {
  const readiness = await readReadiness(url);
  // A gateway that is ready has rejected this request for another reason, such as a rate limit.
  if (readiness.kind === "ready") throw error;
  const first = readiness.kind === "silent" ? unreachable(error) : notReady(url, readiness.reason);
  return isLoopbackUrl(url) ? [first, ...(await diagnoseMachine(io))] : [first];
}

type Readiness =
  | { readonly kind: "ready" }
  | { readonly kind: "not_ready"; readonly reason: string }
  | { readonly kind: "silent" };

async function readReadiness(url: string): Promise<Readiness> {
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(READY_MS_MAX) });
    const document = (await response.json()) as { readonly detail?: unknown };
    if (response.ok) return { kind: "ready" };
    const { detail } = document;
    return { kind: "not_ready", reason: typeof detail === "string" ? detail : `status ${response.status}` };
  } catch {
    return { kind: "silent" };
  }
}

function unreachable(error: CliError): Finding {
  const fix = "start the control plane, or set CORDUM_URL to its address";
  return danger("unreachable", error.message, fix, error.next);
}

function notReady(url: string, reason: string): Finding {
  const what = `the control plane at ${url} responds, but cannot work: ${reason}`;
  const { fix, next } = STORE_FIXES.find(({ mention }) => mention.test(reason)) ?? OTHER_FIX;
  return danger(/store/.test(reason) ? "store_unavailable" : "not_ready", what, fix, next);
}

/** By the error of the store. */
const STORE_FIXES = [
  {
    mention: /redis/i,
    fix: "start the Redis server and check `redis.url`; the control plane reconnects, and waiting jobs continue",
    next: "redis-cli ping",
  },
  {
    mention: /full|ENOSPC/i,
    fix: "free space on the disk of the data directory, then restart the control plane",
    next: "df -h",
  },
  {
    mention: /SQLITE|disk I\/O|EIO|EROFS|ENOENT|readonly/i,
    fix: "check that the data directory is present and writable, then restart the control plane",
    next: "cordum config explain data.dir",
  },
] as const;

const OTHER_FIX = { fix: "check the store and the log of the process", next: "cordum status" } as const;

async function diagnoseMachine(io: Io): Promise<readonly Finding[]> {
  let config: Config;
  try {
    config = loadConfig(io, undefined, [], () => {});
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return [danger("config_invalid", error.message, "correct the settings", error.next)];
  }
  const { natsUrl, redisUrl, dataDir } = config.process;
  if (natsUrl === null || redisUrl === null) {
    return diagnoseDirectory(dataDir, config.settings.diagnosis.diskFreeMin);
  }
  const found = await Promise.all([diagnoseServer("redis", redisUrl, 6379), diagnoseServer("nats", natsUrl, 4222)]);
  return found.filter((one) => one !== null);
}

async function diagnoseDirectory(dir: string, freeMin: number): Promise<readonly Finding[]> {
  const next = "cordum config explain data.dir";
  try {
    await access(dir, constants.R_OK | constants.W_OK);
    const { path, freeBytes, totalBytes } = await diskUsage(dir);
    const isLow = freeBytes < freeMin * totalBytes;
    return isLow ? [diskLow({ path, free_bytes: freeBytes, size_bytes: totalBytes })] : [];
  } catch (error) {
    const { code = String(error) } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") {
      const what = `the data directory ${dir} does not exist`;
      const fix = "mount its disk, or set `data.dir` to the directory of this control plane; a new one is empty";
      return [caution("data_dir_missing", what, fix, next)];
    }
    const what = `the data directory ${dir} is not accessible (${code})`;
    return [danger("data_dir_unusable", what, "check the disk and the owner of the directory", next)];
  }
}

/** The first address of the setting `<name>.url`; credentials in it are not shown. */
async function diagnoseServer(name: "nats" | "redis", urls: string, defaultPort: number): Promise<Finding | null> {
  const [first = ""] = urls.split(",");
  const url = first.includes("://") ? first.trim() : `${name}://${first.trim()}`;
  if (!URL.canParse(url)) return null;
  const { hostname, port } = new URL(url);
  const at = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || defaultPort) };
  const why = await connectError(at);
  if (why === null) return null;
  const what = `the ${name} server at ${hostname}:${at.port} does not accept connections (${why})`;
  const fix = `start the server, or correct \`${name}.url\`; the control plane reconnects`;
  return danger(`${name}_down`, what, fix, `cordum config explain ${name}.url`);
}

/** Null if the server accepts a connection. */
function connectError(at: { readonly host: string; readonly port: number }): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect({ ...at, timeout: CONNECT_MS_MAX });
    const end = (why: string | null) => {
      socket.destroy();
      resolve(why);
    };
    socket.once("connect", () => end(null));
    socket.once("timeout", () => end(`no answer within ${CONNECT_MS_MAX} ms`));
    socket.once("error", (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
}

const READY_MS_MAX = 5_000;
const CONNECT_MS_MAX = 2_000;
