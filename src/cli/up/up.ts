import { TrustError } from "../../adapters/node/pem-file.ts";
import { forTerminal, pinoLog } from "../../adapters/node/pino-log.ts";
import { tokenFile } from "../../adapters/node/startup-token.ts";
import type { Config } from "../../config/config.ts";
import { inForceView } from "../../gateway/views/policy-views.ts";
import type { Log } from "../../ports/log.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { CONFIG_FILE, type FlagValues, loadConfig } from "./load-config.ts";
import { loadPolicy } from "./load-policy.ts";
import { processName, ROLES, type Running, type ServeRole, serve } from "./serve.ts";
import { fileVersion, watchFile } from "./watch-file.ts";

export interface UpOptions {
  readonly json?: boolean;
  readonly data?: string;
  readonly host?: string;
  readonly port?: string;
  readonly nats?: string;
  readonly redis?: string;
  readonly role?: string;
  readonly safety?: string;
  readonly policy?: string;
  readonly workflows?: string;
  readonly config?: string;
  readonly demo?: boolean;
}

export async function up(io: Io, options: UpOptions, version: string): Promise<ExitCode> {
  const readConfig = (warn?: (warning: string) => void) => loadConfig(io, options.config, flagsOf(options), warn);
  const file = options.config ?? CONFIG_FILE;
  // Read before the file, so that later changes are detected.
  const stamp = fileVersion(file);
  const config = readConfig();
  const role = roleOf(options.role, config);
  const isDefaultPort = config.origins["http.port"].kind === "default";
  const port = isDefaultPort ? (PORTS[role] ?? config.process.port) : config.process.port;
  // Clients name the ports of the gateway and the kernel; only monitoring reads that of a control process.
  const canMovePort = isDefaultPort && role === "control";
  const demo = options.demo === true;
  const policy = loadPolicy(config.process.policyFile, demo);
  const name = config.process.name ?? processName();
  const target = { write: (text: string) => io.err(text) };
  const log = pinoLog({
    level: config.process.logLevel,
    name,
    target: io.isInteractive ? forTerminal(target, { color: io.color }) : target,
  });
  // Files of this process are private, also in a directory that already exists.
  process.umask(0o077);
  // Installed before the start: a signal during the start must not kill the process half-way.
  const stopping = stopSignal();
  const starting = new AbortController();
  void stopping.then(() => starting.abort());
  let running: Running;
  try {
    running = await serve({
      role,
      config,
      policy,
      port,
      canMovePort,
      version,
      demo,
      log,
      name,
      signal: starting.signal,
    });
  } catch (error) {
    if (starting.signal.aborted) return EXIT.ok;
    throw startError(error, { ...config.process, port, role });
  }
  const stopReloading = reloadOnChange({ file, stamp, log, running, readConfig });
  printStarted(io, running, { role, config, version, options });
  const signal = await stopping;
  io.err(`${signal}: shutting down gracefully; repeat the signal to exit immediately\n`);
  stopReloading();
  await running.stop().catch((error: unknown) => {
    throw stopError(error, config.process.dataDir);
  });
  return EXIT.ok;
}

function flagsOf(options: UpOptions): FlagValues {
  return [
    { name: "data.dir", flag: "--data", value: options.data },
    { name: "http.host", flag: "--host", value: options.host },
    { name: "http.port", flag: "--port", value: options.port },
    { name: "nats.url", flag: "--nats", value: options.nats },
    { name: "redis.url", flag: "--redis", value: options.redis },
    { name: "safety.address", flag: "--safety", value: options.safety },
    { name: "policy.file", flag: "--policy", value: options.policy },
    { name: "workflows.dir", flag: "--workflows", value: options.workflows },
  ];
}

/** Validates the role and its servers before the start. */
function roleOf(name: string | undefined, { process: { natsUrl, safetyAddress } }: Config): ServeRole {
  const role = ROLES.find((known) => known === (name ?? "all"));
  if (role === undefined) {
    const known = ROLES.map((one) => `\`${one}\``).join(", ");
    throw new CliError(EXIT.usage, `unknown role \`${name}\`; known roles: ${known}`, "cordum up --help");
  }
  if ((role === "gateway" || role === "control") && natsUrl === null) {
    const message = `role \`${role}\` requires a cluster; set --nats and --redis`;
    throw new CliError(EXIT.usage, message, `cordum up --role ${role} --nats URL --redis URL`);
  }
  if (safetyAddress === null) return role;
  if (role === "safety") {
    const message = "role `safety` cannot use a remote safety kernel; remove --safety (`safety.address`) or the role";
    throw new CliError(EXIT.usage, message, "cordum up --role safety");
  }
  if (!/^[^\s/]+:\d{1,5}$/.test(safetyAddress)) {
    const message = `invalid safety kernel address \`${safetyAddress}\`; expected host:port`;
    throw new CliError(EXIT.usage, message, "cordum up --safety 127.0.0.1:50051");
  }
  return role;
}

/** Default ports of the roles, so that a cluster can run on one machine. */
const PORTS: Readonly<Partial<Record<ServeRole, number>>> = { control: 8082, safety: 50_051 };

interface Started {
  readonly role: ServeRole;
  readonly config: Config;
  readonly version: string;
  readonly options: UpOptions;
}

function printStarted(
  io: Io,
  { url, about, kernel, startupToken }: Running,
  { role, config, version, options }: Started,
): void {
  const policy = inForceView(kernel);
  const { dataDir, workflowsDir } = config.process;
  if (options.json)
    printJson(io, {
      url,
      token_file: startupToken && tokenFile(dataDir),
      pid: process.pid,
      role,
      version,
      ...about,
      policy,
    });
  const what = role === "all" ? `cordum ${version}` : `cordum ${version}, ${ROLE_NAMES[role]},`;
  const where = about === null ? "gRPC" : about.mode === "embedded" ? `embedded, data in ${dataDir}` : "cluster";
  io.err(`${what} listening on ${url} (${where})\npolicy: ${kernel.inForce.source}\n`);
  if (role === "safety") {
    io.err(`next: ${io.command} up --safety ${url}\n`);
    return;
  }
  const hasToken = startupToken !== null && dataDir !== ".cordum";
  const prefix = `${url === "http://127.0.0.1:8081" ? "" : `CORDUM_URL=${url} `}${hasToken ? `CORDUM_DATA_DIR=${dataDir} ` : ""}`;
  if (workflowsDir !== null) io.err(`workflows: ${workflowsDir}, applied on change\n`);
  if (role === "control") return;
  if (!options.demo) {
    io.err(`next: ${prefix}${io.command} status\n`);
    return;
  }
  io.err(`demo topics: demo.echo, demo.flaky (fails twice), demo.slow, demo.broken (fails permanently),
  demo.forbidden (denied by the policy), demo.approve (requires approval), demo.limited (allowed with constraints)
dashboard: ${url}/${startupToken === null ? "" : `#${startupToken}`}
next, in another terminal:
  ${prefix}${io.command} job submit demo.echo '{"hello":"world"}' --wait
`);
  if (workflowsDir !== null) io.err(`  ${prefix}${io.command} workflow list\n`);
}

const ROLE_NAMES: Readonly<Record<Exclude<ServeRole, "all">, string>> = {
  gateway: "cluster gateway",
  control: "cluster control",
  safety: "safety kernel",
};

/** Resolves with the first signal; the second one exits immediately. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: NodeJS.Signals) => {
      if (isStopping) process.exit(signal === "SIGINT" ? 130 : 143);
      isStopping = true;
      resolve(signal);
    };
    process.on("SIGINT", onSignal);
    process.on("SIGTERM", onSignal);
  });
}

interface Reloading {
  readonly file: string;
  readonly stamp: string;
  readonly log: Log;
  readonly running: Running;
  readonly readConfig: (warn: (warning: string) => void) => Config;
}

/** Reloads the config on a file change or SIGHUP. */
function reloadOnChange({ file, stamp, log, running, readConfig }: Reloading): () => void {
  const reload = () => {
    try {
      const warn = (warning: string) => log.write("warn", "setting_deprecated", { warning });
      const { applied, needRestart } = running.live.reload(readConfig(warn));
      if (applied.length > 0) log.write("info", "config_reloaded", { settings: applied.join(", ") });
      if (needRestart.length > 0) log.write("warn", "config_restart_required", { settings: needRestart.join(", ") });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      log.write("error", "config_reload_failed", { error: why, detail: "the previous settings stay in force" });
    }
  };
  const stopWatching = watchFile(file, stamp, reload);
  process.on("SIGHUP", reload);
  return () => {
    stopWatching();
    process.off("SIGHUP", reload);
  };
}

/** A store or bus that is unavailable during the shutdown, such as a full disk. Other errors are bugs. */
function stopError(error: unknown, dataDir: string): unknown {
  const causes: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const isUnavailable = (cause: unknown) => String((cause as { code?: unknown }).code).endsWith("_UNAVAILABLE");
  if (!causes.every(isUnavailable)) return error;
  const why = causes.map((cause) => (cause as Error).message).join("; ");
  return new CliError(EXIT.unavailable, why, `cordum up --data ${dataDir}`);
}

interface StartFacts {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly role: ServeRole;
}

/** Maps known start failures to an error with a next command. `TypeError` and `ReferenceError` are bugs. */
function startError(error: unknown, { host, port, dataDir, role }: StartFacts): unknown {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof ReferenceError) return error;
  if (error instanceof CliError) return error;
  const { code } = error as { code?: unknown };
  if (code === "EADDRINUSE" && role === "safety") {
    const message =
      `port ${port} on ${host} is in use, possibly by another safety kernel; ` +
      "the port is fixed because callers name it in `safety.address`: choose another one here and there";
    return new CliError(
      EXIT.conflict,
      message,
      `cordum up --role safety --port ${port === 65_535 ? 50_051 : port + 1}`,
    );
  }
  if (code === "EADDRINUSE") {
    const message = `port ${port} on ${host} is in use, possibly by another control plane (check with \`cordum status\`)`;
    const next = role === "all" ? "cordum up --port 0" : `cordum up --role ${role} --port 0`;
    return new CliError(EXIT.conflict, message, next);
  }
  if (code === "STORE_DAMAGED") return new CliError(EXIT.error, error.message, `cordum repair ${dataDir}`);
  if (code === "EACCES" && port > 0 && port < 1024) {
    return new CliError(
      EXIT.error,
      `port ${port} requires elevated privileges; use a port from 1024`,
      "cordum up --port 8081",
    );
  }
  if (error instanceof TrustError)
    return new CliError(EXIT.usage, error.message, `cordum config explain ${error.setting}`);
  if (error.name === "InsecureBindError") return new CliError(EXIT.usage, error.message, "cordum up --host 127.0.0.1");
  if (error.message.includes("is in use by process")) {
    return new CliError(EXIT.conflict, error.message, `cordum up --data ${dataDir}-2`);
  }
  const exitCode = String(code).endsWith("_UNAVAILABLE") ? EXIT.unavailable : EXIT.error;
  return new CliError(exitCode, `start failed: ${error.message}`, "cordum config explain");
}
