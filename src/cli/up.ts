/** `cordum up`: runs the control plane until it is told to stop. */
import { unwatchFile, watchFile } from "node:fs";
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
  announce(io, running, config.process.dataDir, options);
  const stopReloading = reloadOnChange(options.config ?? CONFIG_FILE, log, running, readConfig);
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
    io.say(`next: ${prefix}npx cordum status\n`);
    return;
  }
  io.say(`demo topics: demo.echo, demo.flaky (fails twice), demo.slow, demo.broken, demo.forbidden
next, in another terminal:
  ${prefix}npx cordum job submit demo.echo '{"hello":"world"}' --wait
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

/** Takes over what can be taken over when the config file changes or a SIGHUP comes; says what cannot. */
function reloadOnChange(
  file: string,
  log: Log,
  { live }: Running,
  readConfig: () => ReturnType<typeof loadConfig>,
): () => void {
  const reload = () => {
    try {
      const { taken, needRestart } = live.reload(readConfig());
      if (taken.length > 0) log.write("info", "config_reloaded", { settings: taken.join(", ") });
      if (needRestart.length > 0) log.write("warn", "config_needs_a_restart", { settings: needRestart.join(", ") });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      log.write("error", "config_not_reloaded", { why, still: "the settings from before are in force" });
    }
  };
  // Polling, not watching: it survives editors that replace the file, and a file that is only made later.
  watchFile(file, { interval: 500, persistent: false }, reload);
  process.on("SIGHUP", reload);
  return () => {
    unwatchFile(file, reload);
    process.off("SIGHUP", reload);
  };
}

/** The few ways in which a start usually fails, each with what to do about it. */
function explain(error: unknown, { host, port, dataDir }: { host: string; port: number; dataDir: string }): unknown {
  if (!(error instanceof Error)) return error;
  const { code } = error as { code?: unknown };
  if (code === "EADDRINUSE") {
    return new CliError(
      EXIT.conflict,
      `port ${port} on ${host} is taken; perhaps a control plane is running there already (\`cordum status\`), else choose another port`,
      "cordum up --port 0",
    );
  }
  if (code === "EACCES" && port < 1024 && port > 0) {
    return new CliError(
      EXIT.error,
      `port ${port} needs special rights; choose one from 1024 on`,
      "cordum up --port 8081",
    );
  }
  if (error.name === "NotLoopback") return new CliError(EXIT.usage, error.message, "cordum up --host 127.0.0.1");
  if (error.name === "DataDirLocked") {
    return new CliError(
      EXIT.conflict,
      `${error.message}; a data directory belongs to one process: ask that one, stop it, or use another directory`,
      `cordum up --data ${dataDir}-2`,
    );
  }
  return error;
}
