/** `cordum up`: runs the control plane until it is told to stop. */

import { TrustError } from "../../adapters/node/pem-file.ts";
import { forTerminal, pinoLog } from "../../adapters/node/pino-log.ts";
import type { Config } from "../../config/config.ts";
import { inForceView } from "../../gateway/views/policy-views.ts";
import type { Log } from "../../ports/log.ts";
import { CliError, EXIT, type ExitCode } from "../exit.ts";
import { type Io, printJson } from "../io.ts";
import { CONFIG_FILE, type FlagValues, loadConfig } from "./load-config.ts";
import { loadPolicy } from "./load-policy.ts";
import { processName, ROLES, type Running, type ServeRole, serve } from "./serve.ts";
import { stampOf, watchFile } from "./watch-file.ts";

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
  const readConfig = () => loadConfig(io, options.config, flagsOf(options));
  const file = options.config ?? CONFIG_FILE;
  // Before it is read: a change after this line is seen as one.
  const stamp = stampOf(file);
  const config = readConfig();
  const role = roleOf(options.role, config);
  const port = portOf(role, config);
  const demo = options.demo === true;
  const policy = loadPolicy(config.process.policyFile, demo);
  const name = config.process.name ?? processName();
  const target = { write: (text: string) => io.err(text) };
  const log = pinoLog({
    level: config.process.logLevel,
    name,
    target: io.isInteractive ? forTerminal(target, { color: io.color }) : target,
  });
  // Listening before anything is started: a signal during the start must not kill it half-way.
  const told = stopSignal();
  let running: Running;
  try {
    running = await serve({ role, config, policy, port, version, demo, log, name });
  } catch (error) {
    throw explain(error, { ...config.process, port });
  }
  const stopReloading = reloadOnChange({ file, stamp, log, running, readConfig });
  announce(io, running, { role, config, version, options });
  const signal = await told;
  io.err(`${signal}: finishing what is in progress; once more ends at once\n`);
  stopReloading();
  await running.stop();
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

/** What the roles that are parts of a cluster need, said before anything is started. */
function roleOf(wanted: string | undefined, { process: { natsUrl, safetyAddress } }: Config): ServeRole {
  const role = ROLES.find((known) => known === (wanted ?? "all"));
  if (role === undefined) {
    const known = ROLES.map((name) => `\`${name}\``).join(", ");
    throw new CliError(EXIT.usage, `there is no role \`${wanted}\`; there are ${known}`, "cordum up --help");
  }
  if ((role === "gateway" || role === "control") && natsUrl === null) {
    const message = `the role \`${role}\` is a part of a cluster; give its servers with --nats and --redis`;
    throw new CliError(EXIT.usage, message, `cordum up --role ${role} --nats URL --redis URL`);
  }
  if (safetyAddress === null) return role;
  if (role === "safety") {
    const message = "a safety kernel asks no other one: leave out --safety (`safety.address`), or the role";
    throw new CliError(EXIT.usage, message, "cordum up --role safety");
  }
  if (!/^[^\s/]+:\d{1,5}$/.test(safetyAddress)) {
    const message = `\`${safetyAddress}\` is no address of a safety kernel; write it as host:port`;
    throw new CliError(EXIT.usage, message, "cordum up --safety 127.0.0.1:50051");
  }
  return role;
}

/** So that the parts of a cluster can be started on one machine without naming ports. */
const PORTS: Readonly<Partial<Record<ServeRole, number>>> = { control: 8082, safety: 50_051 };

function portOf(role: ServeRole, { process, origins }: Config): number {
  return origins["http.port"].kind === "default" ? (PORTS[role] ?? process.port) : process.port;
}

interface Started {
  readonly role: ServeRole;
  readonly config: Config;
  readonly version: string;
  readonly options: UpOptions;
}

function announce(io: Io, { url, about, kernel }: Running, { role, config, version, options }: Started): void {
  const policy = inForceView(kernel);
  const { dataDir, workflowsDir } = config.process;
  if (options.json) printJson(io, { url, pid: process.pid, role, version, ...about, policy });
  const what = role === "all" ? `cordum ${version}` : `cordum ${version}, ${WHAT[role]},`;
  const where = about === null ? "gRPC" : about.mode === "embedded" ? `embedded, data in ${dataDir}` : "cluster";
  io.err(`${what} listens on ${url} (${where})\npolicy: ${kernel.inForce.source}\n`);
  if (role === "safety") {
    io.err(`next: ${io.command} up --safety ${url}\n`);
    return;
  }
  const prefix = url === "http://127.0.0.1:8081" ? "" : `CORDUM_URL=${url} `;
  if (workflowsDir !== null) io.err(`workflows: ${workflowsDir}, applied again when they change\n`);
  if (role === "control") return;
  if (!options.demo) {
    io.err(`next: ${prefix}${io.command} status\n`);
    return;
  }
  io.err(`demo topics: demo.echo, demo.flaky (fails twice), demo.slow, demo.broken (never works),
  demo.forbidden (denied by the policy), demo.approve (asks a human first), demo.limited (allowed with constraints)
status page: ${url}/
next, in another terminal:
  ${prefix}${io.command} job submit demo.echo '{"hello":"world"}' --wait
`);
  if (workflowsDir !== null) io.err(`  ${prefix}${io.command} workflow list\n`);
}

const WHAT: Readonly<Record<Exclude<ServeRole, "all">, string>> = {
  gateway: "the gateway of a cluster",
  control: "the control of a cluster",
  safety: "the safety kernel",
};

/** Resolves with the first signal; the second ends the process at once. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let told = false;
    const onSignal = (signal: NodeJS.Signals) => {
      if (told) process.exit(signal === "SIGINT" ? 130 : 143);
      told = true;
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
  readonly readConfig: () => Config;
}

/** Takes over what can be taken over when the config file changes or a SIGHUP comes; says what cannot. */
function reloadOnChange({ file, stamp, log, running, readConfig }: Reloading): () => void {
  const reload = () => {
    try {
      const { applied: taken, needRestart } = running.live.reload(readConfig());
      if (taken.length > 0) log.write("info", "config_reloaded", { settings: taken.join(", ") });
      if (needRestart.length > 0) log.write("warn", "config_needs_a_restart", { settings: needRestart.join(", ") });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      log.write("error", "config_not_reloaded", { why, still: "the settings from before are in force" });
    }
  };
  const stopWatching = watchFile(file, stamp, reload);
  process.on("SIGHUP", reload);
  return () => {
    stopWatching();
    process.off("SIGHUP", reload);
  };
}

/** The ways in which a start usually fails, each with what to do about it. What the language throws is a bug of ours. */
function explain(error: unknown, { host, port, dataDir }: { host: string; port: number; dataDir: string }): unknown {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof ReferenceError) return error;
  if (error instanceof CliError) return error;
  const { code } = error as { code?: unknown };
  if (code === "EADDRINUSE") {
    const message = `port ${port} on ${host} is taken, perhaps by a control plane that runs already (\`cordum status\`)`;
    return new CliError(EXIT.conflict, message, "cordum up --port 0");
  }
  if (code === "EACCES" && port > 0 && port < 1024) {
    return new CliError(
      EXIT.error,
      `port ${port} needs special rights; choose one from 1024 on`,
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
  return new CliError(exitCode, `could not start: ${error.message}`, "cordum config explain");
}
