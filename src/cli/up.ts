/** `cordum up`: runs the control plane until it is told to stop. */
import { statSync } from "node:fs";
import type { Config } from "../config.ts";
import type { Log } from "../ports/log.ts";
import { forTerminal, pinoLog } from "../worlds/pino-log.ts";
import { CliError, EXIT, type ExitCode } from "./exit.ts";
import { type Io, printJson } from "./io.ts";
import { CONFIG_FILE, type FlagValues, loadConfig } from "./load-config.ts";
import { loadPolicy } from "./load-policy.ts";
import { processName, type Running, serve } from "./serve.ts";

export interface UpOptions {
  readonly json?: boolean;
  readonly data?: string;
  readonly host?: string;
  readonly port?: string;
  readonly nats?: string;
  readonly redis?: string;
  readonly policy?: string;
  readonly config?: string;
  readonly demo?: boolean;
}

export async function up(io: Io, options: UpOptions, version: string): Promise<ExitCode> {
  const readConfig = () => loadConfig(io, options.config, flagsOf(options));
  const file = options.config ?? CONFIG_FILE;
  // Before it is read: a change after this line is seen as one.
  const stamp = stampOf(file);
  const config = readConfig();
  const demo = options.demo === true;
  const policy = loadPolicy(config.process.policyFile, demo);
  const name = config.process.name ?? processName();
  const target = { write: (text: string) => io.say(text) };
  const log = pinoLog({
    level: config.process.logLevel,
    name,
    target: io.watched ? forTerminal(target, { color: io.color }) : target,
  });
  // Listening before anything is started: a signal during the start must not kill it half-way.
  const told = stopSignal();
  let running: Running;
  try {
    running = await serve({ config, policy, version, demo, log, name });
  } catch (error) {
    throw explain(error, config.process);
  }
  const stopReloading = reloadOnChange({ file, stamp, log, running, readConfig });
  announce(io, running, config.process.dataDir, options);
  const signal = await told;
  io.say(`${signal}: finishing what is in progress; once more ends at once\n`);
  stopReloading();
  await running.stop();
  return EXIT.fine;
}

function flagsOf(options: UpOptions): FlagValues {
  return [
    { name: "data.dir", flag: "--data", value: options.data },
    { name: "http.host", flag: "--host", value: options.host },
    { name: "http.port", flag: "--port", value: options.port },
    { name: "nats.url", flag: "--nats", value: options.nats },
    { name: "redis.url", flag: "--redis", value: options.redis },
    { name: "policy.file", flag: "--policy", value: options.policy },
  ];
}

function announce(io: Io, { url, about }: Running, dataDir: string, options: UpOptions): void {
  const where = about.mode === "embedded" ? `embedded, data in ${dataDir}` : "cluster";
  if (options.json) printJson(io, { url, pid: process.pid, ...about });
  io.say(`cordum ${about.version} listens on ${url} (${where})\npolicy: ${about.policy.source}\n`);
  const prefix = url === "http://127.0.0.1:8081" ? "" : `CORDUM_URL=${url} `;
  if (!options.demo) {
    io.say(`next: ${prefix}${io.command} status\n`);
    return;
  }
  io.say(`demo topics: demo.echo, demo.flaky (fails twice), demo.slow, demo.broken, demo.forbidden
next, in another terminal:
  ${prefix}${io.command} job submit demo.echo '{"hello":"world"}' --wait
`);
}

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
      const { taken, needRestart } = running.live.reload(readConfig());
      if (taken.length > 0) log.write("info", "config_reloaded", { settings: taken.join(", ") });
      if (needRestart.length > 0) log.write("warn", "config_needs_a_restart", { settings: needRestart.join(", ") });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      log.write("error", "config_not_reloaded", { why, still: "the settings from before are in force" });
    }
  };
  let seen = stamp;
  // Polled, not watched: that survives editors which replace the file, and a file that is only made later.
  const timer = setInterval(() => {
    const now = stampOf(file);
    if (now === seen) return;
    seen = now;
    reload();
  }, CONFIG_POLL_MS);
  process.on("SIGHUP", reload);
  return () => {
    clearInterval(timer);
    process.off("SIGHUP", reload);
  };
}

const CONFIG_POLL_MS = 500;

/** Differs after any change to the file. */
function stampOf(file: string): string {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? "absent" : `${stats.mtimeMs} ${stats.size} ${stats.ino}`;
}

/** The ways in which a start usually fails, each with what to do about it. What the language throws is a bug of ours. */
function explain(error: unknown, { host, port, dataDir }: { host: string; port: number; dataDir: string }): unknown {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof ReferenceError) return error;
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
  if (error.name === "NotLoopback") return new CliError(EXIT.usage, error.message, "cordum up --host 127.0.0.1");
  if (error.message.includes("is in use by process")) {
    return new CliError(EXIT.conflict, error.message, `cordum up --data ${dataDir}-2`);
  }
  const exitCode = String(code).endsWith("_UNAVAILABLE") ? EXIT.tryAgain : EXIT.error;
  return new CliError(exitCode, `could not start: ${error.message}`, "cordum config explain");
}
