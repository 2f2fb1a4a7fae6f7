/** Commands as a test runs them: clients in this process with captured output, `up` as a process of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Io } from "../../src/cli/io.ts";
import { runCli } from "../../src/cli/program.ts";

export interface Ran {
  readonly exitCode: number;
  readonly out: string;
  readonly talk: string;
}

export async function cordum(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
  stdin = "",
  change: Partial<Io> = {},
): Promise<Ran> {
  const captured = ioFor(env, stdin, change);
  const exitCode = await runCli(argv, captured.io, "1.2.3");
  return { exitCode, ...captured.said() };
}

/** An outside that keeps what is said to it. */
export function ioFor(env: Readonly<Record<string, string>>, stdin = "", change: Partial<Io> = {}) {
  let out = "";
  let talk = "";
  const io: Io = {
    env,
    out: (text) => {
      out += text;
    },
    say: (text) => {
      talk += text;
    },
    watched: false,
    color: false,
    readStdin: () => stdin,
    command: "cordum",
    nowMs: () => Date.now(),
    pause: (delayMs) => new Promise((resolve) => setTimeout(resolve, delayMs)),
    ...change,
  };
  return { io, said: () => ({ out, talk }) };
}

export interface UpProcess {
  readonly child: ChildProcess;
  /** Resolves to the address once it listens; rejects with what it said if it ends before. */
  readonly url: Promise<string>;
  /** Resolves once the text has been said on stderr. */
  said(text: string): Promise<void>;
  readonly ended: Promise<Ran>;
}

export function startUp(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
  program: readonly string[] = ["--import", "tsx", "src/main.ts"],
): UpProcess {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const child = spawn(process.execPath, [...program, "up", "--json", ...argv], {
    cwd: root,
    env: { ...cleanEnvironment(), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let talk = "";
  const waiting: { text: string; resolve: () => void }[] = [];
  const closed = once(child, "close").then(([code]) => ({ exitCode: Number(code), out, talk }));
  const url = new Promise<string>((resolve, reject) => {
    child.stdout.on("data", (chunk) => {
      out += chunk;
      if (!out.endsWith("}\n")) return;
      const { url } = JSON.parse(out);
      if (typeof url === "string") resolve(url);
      else reject(new Error(`did not start: ${out}`));
    });
    closed.then((ran) => reject(new Error(`ended with ${ran.exitCode}: ${ran.talk}`)));
  });
  url.catch(() => {});
  child.stderr.on("data", (chunk) => {
    talk += chunk;
    for (const one of waiting) if (talk.includes(one.text)) one.resolve();
  });
  return {
    child,
    url,
    ended: closed,
    said: (text) =>
      new Promise((resolve, reject) => {
        if (talk.includes(text)) resolve();
        else waiting.push({ text, resolve });
        closed.then((ran) => reject(new Error(`ended without saying \`${text}\`: ${ran.talk}`)));
      }),
  };
}

/** Without what belongs to the run of the tests: it would be read as settings, or change what is said. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^(CORDUM_|POLICY_|npm_)/.test(key)));
}
