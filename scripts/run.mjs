// Shared by the scripts. Diagnostics go to stderr, so that stdout contains data only.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

export function log(line) {
  process.stderr.write(`cordum: ${line}\n`);
}

/** Runs a command in the project directory. With `show: false` the output is returned instead of printed. */
export function run(command, args, { show = true, env = {} } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...process.env, ...env },
      stdio: ["ignore", show ? "inherit" : "pipe", show ? "inherit" : "pipe"],
      // On Windows, npm and the tools are .cmd files, which require a shell.
      shell: process.platform === "win32",
    });
    let output = "";
    child.stdout?.on("data", (chunk) => {
      output += chunk;
    });
    child.stderr?.on("data", (chunk) => {
      output += chunk;
    });
    child.on("error", (error) => resolve({ code: 127, output: `${output}${error.message}\n` }));
    child.on("close", (code, signal) => resolve({ code: signal === null ? code : 1, output }));
  });
}

/** Runs a tool of node_modules/.bin. */
export function runTool(name, args, options) {
  return run(join(root, "node_modules", ".bin", name), args, options);
}

/** Entry point of a script: prints an error as one line and exits with 1. */
export async function runAsMain(main) {
  try {
    await main();
  } catch (error) {
    log(error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  }
}
