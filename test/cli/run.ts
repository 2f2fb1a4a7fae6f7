/** Runs commands in this process with captured output, and `up` as a child process. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { resolve as resolvePath } from "node:path";
import { fileURLToPath } from "node:url";
import type { Io } from "../../src/cli/io.ts";
import { runCli } from "../../src/cli/program.ts";

export interface Ran {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

export async function cordum(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
  stdin = "",
  change: Partial<Io> = {},
): Promise<Ran> {
  const captured = ioFor({ CORDUM_DATA_DIR: NO_DIRECTORY, ...keyFor(env.CORDUM_URL), ...env }, stdin, change);
  const exitCode = await runCli(argv, captured.io, "1.2.3");
  return { exitCode, ...captured.output() };
}

/** Commands must not read the token of a control plane that was started in this directory. */
const NO_DIRECTORY = "/dev/null/none";

/** An `Io` that captures its output. */
export function ioFor(env: Readonly<Record<string, string>>, stdin = "", change: Partial<Io> = {}) {
  let out = "";
  let err = "";
  const io: Io = {
    env,
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    isInteractive: false,
    color: false,
    readStdin: () => stdin,
    command: "cordum",
    nowMs: () => Date.now(),
    sleep: (delayMs) => new Promise((resolve) => setTimeout(resolve, delayMs)),
    ...change,
  };
  return { io, output: () => ({ out, err }) };
}

/** The start-up tokens of the control planes that this process has started, by address. */
const TOKENS = new Map<string, string>();

/** The start-up token as a header; empty for other addresses. */
export function tokenHeader(url: string): Readonly<Record<string, string>> {
  const token = TOKENS.get(new URL(url).origin);
  return token === undefined ? {} : { "x-api-key": token };
}

function keyFor(url: string | undefined): Readonly<Record<string, string>> {
  const token = TOKENS.get(url ?? "");
  return token === undefined ? {} : { CORDUM_API_KEY: token };
}

export interface UpProcess {
  readonly child: ChildProcess;
  /** Resolves to the address once it listens; rejects with its output if it exits before. */
  readonly url: Promise<string>;
  /** Resolves once stderr contains the text. */
  printed(text: string): Promise<void>;
  readonly ended: Promise<Ran>;
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** The launcher builds `dist/` if its sources have changed. A start from `src/` takes four times as long. */
export function startUp(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
  program: readonly string[] = ["bin/cordum.mjs"],
  cwd = ROOT,
): UpProcess {
  const child = spawn(process.execPath, [...program, "up", "--json", ...argv], {
    cwd,
    env: { ...cleanEnvironment(), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  const waiting: { text: string; resolve: () => void }[] = [];
  const closed = once(child, "close").then(([code]) => ({ exitCode: Number(code), out, err }));
  let isStarted = false;
  const url = new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      out += chunk;
      // A process that fails later prints another document.
      if (isStarted || !out.endsWith("}\n")) return;
      isStarted = true;
      const { url, token_file } = JSON.parse(out);
      if (typeof token_file === "string") TOKENS.set(url, readFileSync(resolvePath(cwd, token_file), "utf8").trim());
      if (typeof url === "string") resolve(url);
      else reject(new Error(`did not start: ${out}`));
    });
    closed.then((ran) => reject(new Error(`ended with ${ran.exitCode}: ${ran.err}`)));
  });
  url.catch(() => {});
  child.stderr.on("data", (chunk) => {
    err += chunk;
    for (const one of waiting) if (err.includes(one.text)) one.resolve();
  });
  return {
    child,
    url,
    ended: closed,
    printed: (text) =>
      new Promise((resolve, reject) => {
        if (err.includes(text)) resolve();
        else waiting.push({ text, resolve });
        closed.then((ran) => reject(new Error(`exited without printing \`${text}\`: ${ran.err}`)));
      }),
  };
}

/** Without the variables of the test run, which would be read as settings or change the output. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^(CORDUM_|POLICY_|npm_)/.test(key)));
}
